// CUDA's alerts: a call has no deterministic kernel, or it waits for the GPU.
//
// Programs enable them (torch.use_deterministic_algorithms, torch.cuda.set_sync_debug_mode) to find such calls. CPU
// kernels are deterministic and never wait, so rows name the operators.
#pragma once

#include <ATen/core/stack.h>
#include <c10/core/Device.h>

#include "operators/rows.h"

namespace c10 {
class OperatorHandle;
}

namespace hostdevice {

struct OperatorInfo;

// Return null where CUDA is deterministic, or does not wait.
const Nondeterministic* find_nondeterministic(const c10::OperatorHandle& op, const Row& row);
const Waiting* find_waiting(const c10::OperatorHandle& op, const Row& row);

// Whether CUDA waits for the stream in a call with these arguments.
bool waits_for_stream(const OperatorInfo& f, const torch::jit::Stack& stack, size_t base);

// Raise or warn, if the program enabled it and the arguments require it; synchronize where CUDA does.
void raise_alerts(const OperatorInfo& f, const torch::jit::Stack& stack, size_t base, c10::DeviceIndex index);

}  // namespace hostdevice
