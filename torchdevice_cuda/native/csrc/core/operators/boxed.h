// One kernel for every operator that the CPU can compute: alias the arguments, redispatch, adopt the results.
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

struct OperatorInfo;

// Create a kernel that calls the operator's kernel of `target` (CPU, SparseCPU, ...) on aliases of the device tensors.
torch::CppFunction boxed_kernel(c10::DispatchKey target);

// Run an operator without a kernel object (fallbacks, calls from composites) on the CPU. The device's limits on dtypes
// do not apply, because the CPU computes explicitly.
void run_on_cpu(const c10::OperatorHandle& op, c10::DispatchKey target, torch::jit::Stack* stack);

// Change the tensors of a list one after the other. A profile shows one kernel where CUDA would use one.
void change_list(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// Return operator metadata, computed on first use.
const OperatorInfo& get_operator_info(const c10::OperatorHandle& op);

}  // namespace hostdevice
