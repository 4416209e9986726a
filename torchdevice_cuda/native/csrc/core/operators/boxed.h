// One kernel for every operator the CPU can compute: alias, redispatch, adopt.
#pragma once

#include <ATen/core/stack.h>
#include <c10/core/DispatchKeySet.h>

namespace c10 {
class OperatorHandle;
}
namespace torch {
class CppFunction;
}

namespace hostdevice {

struct Facts;

// A kernel that runs the operator's kernel of `target` (CPU, SparseCPU, ...) on aliases of the device tensors.
torch::CppFunction boxed_kernel(c10::DispatchKey target);

// The same for operators without a kernel object of their own (fallbacks, calls from composites). What computes then is
// the CPU, by name: the device's limits on types do not apply.
void run_on_cpu(const c10::OperatorHandle& op, c10::DispatchKey target, torch::jit::Stack* stack);

// Changes the tensors of a list, one after the other. What CUDA would do at once is one kernel in a profile.
void change_list(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// What is known of an operator, worked out when it is first asked for.
const Facts& shared_facts(const c10::OperatorHandle& op);

}  // namespace hostdevice
