// Work of a process group on CPU aliases of device tensors, as the program sees it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "distributed/agreement.h"
#include "distributed/waiting.h"
#include "runtime/streams.h"

namespace hostdevice {

using Finish = std::function<void()>;
using AgreementPtr = std::shared_ptr<const Agreement>;

// `is_point_to_point`: it waits for a call of one other rank instead of all.
WorkPtr make_carried_work(
    std::vector<WorkPtr> parts, std::vector<at::Tensor> outputs, Finish finish, AgreementPtr agreement,
    bool is_point_to_point);
// Report what a work that was just made accesses to observers. `blocks_host`: a wait for it makes the host wait for its
// stream, as for a barrier.
void observe_work(
    const WorkPtr& work, StreamState& stream, const std::vector<at::Tensor>& written,
    const std::vector<at::Tensor>& read, bool blocks_host);
void time_works(bool on);
bool are_works_timed();
// Wait for works that may not be done.
void wait_for_pending();
// Count the works of all ranks that are not done.
size_t count_pending();

}  // namespace hostdevice
