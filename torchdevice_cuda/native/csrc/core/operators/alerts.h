// What CUDA says of a call besides its result: that it cannot be computed deterministically, that it waits for the GPU.
//
// Programs ask to be told (torch.use_deterministic_algorithms, torch.cuda.set_sync_debug_mode) so that they find such
// calls. The CPU's kernels are deterministic and wait for nothing, so rows name the operators.
#pragma once

#include <ATen/core/stack.h>
#include <c10/core/Device.h>

#include "operators/rows.h"

namespace c10 {
class OperatorHandle;
}

namespace hostdevice {

struct Facts;

// Null where CUDA is deterministic, or does not wait.
const Nondeterministic* find_nondeterministic(const c10::OperatorHandle& op, const Row& row);
const Waiting* find_waiting(const c10::OperatorHandle& op, const Row& row);

// Whether CUDA waits for the stream in a call with these arguments.
bool waits(const Facts& f, const torch::jit::Stack& stack, size_t base);

// Raises or warns, if the program has asked for it and the arguments are such; waits where CUDA would.
void tell(const Facts& f, const torch::jit::Stack& stack, size_t base, c10::DeviceIndex index);

}  // namespace hostdevice
