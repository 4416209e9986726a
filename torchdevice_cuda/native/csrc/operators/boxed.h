// One kernel for every operator the CPU can compute: alias, redispatch, adopt.
#pragma once

#include <ATen/core/stack.h>
#include <c10/core/DispatchKey.h>

#include <string>

namespace c10 {
class OperatorHandle;
}

namespace hostdevice {

// Runs op's kernel of `target` (CPU, SparseCPU, ...) on aliases of the device tensors on the stack.
void run_on_cpu(const c10::OperatorHandle& op, c10::DispatchKey target, torch::jit::Stack* stack);

// Operators that have a kernel of their own at a key, so that the boxed one stays away: "name" or "name.overload".
void claim(c10::DispatchKey key, const std::string& name);
bool is_claimed(c10::DispatchKey key, const std::string& name);

}  // namespace hostdevice
