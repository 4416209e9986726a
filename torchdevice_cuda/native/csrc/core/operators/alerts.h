// What CUDA says of a call besides its result: that it cannot be computed deterministically, that it waits for the GPU.
//
// Programs ask to be told (torch.use_deterministic_algorithms, torch.cuda.set_sync_debug_mode) so that they find such
// calls. The CPU's kernels are deterministic and wait for nothing, so the operators are in tables here.
#pragma once

#include <ATen/core/stack.h>
#include <c10/core/Device.h>

namespace c10 {
class OperatorHandle;
}

namespace hostdevice {

struct Facts;

// Whether something is so for these arguments, the operator's first one at `base`; null: for all.
using Condition = bool (*)(const torch::jit::Stack& stack, size_t base);

// An operator that CUDA has no deterministic kernel for.
struct Nondeterministic {
  const char* name;    // without the namespace, and without the overload where all of them are meant
  const char* caller;  // as CUDA's message calls it
  Condition holds = nullptr;
};

// An operator that has CUDA wait for the stream: something is handed to the host.
struct Waiting {
  const char* name;
  Condition holds = nullptr;
};

// Null where CUDA is deterministic, or does not wait.
const Nondeterministic* find_nondeterministic(const c10::OperatorHandle& op);
const Waiting* find_waiting(const c10::OperatorHandle& op);

// Whether CUDA waits for the stream in a call with these arguments.
bool waits(const Facts& f, const torch::jit::Stack& stack, size_t base);

// Raises or warns, if the program has asked for it and the arguments are such; waits where CUDA would.
void tell(const Facts& f, const torch::jit::Stack& stack, size_t base, c10::DeviceIndex index);

}  // namespace hostdevice
