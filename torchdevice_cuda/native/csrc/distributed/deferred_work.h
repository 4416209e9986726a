// Collectives that run later than they are issued, as the program sees them.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "distributed/waiting.h"
#include "operators/recorded.h"
#include "runtime/streams.h"

namespace hostdevice {

// What a collective does. `begin` takes the elements that it reads and does not wait for other ranks; `finish` writes
// the results after they have arrived.
struct DeferredSteps {
  std::function<void()> begin;
  Arrival arrival;
  std::function<void()> finish;
};

// Issue a collective to a stream. `blocks_host`: a wait for the work makes the host wait, as for a barrier.
WorkPtr issue_collective(
    StreamState& stream, std::vector<at::Tensor> outputs, const std::vector<at::Tensor>& written,
    const std::vector<at::Tensor>& read, DeferredSteps steps, bool blocks_host);

}  // namespace hostdevice
