// Parts of the device, which are loaded when one of their operators is first called. Until then a stand-in has its
// place; the kernel that a part brings is called through it, so that nothing is registered while others compute.
#pragma once

#include <ATen/core/boxing/BoxedKernel.h>
#include <c10/core/DispatchKey.h>

#include <functional>
#include <string>
#include <vector>

namespace hostdevice {

// An operator of a part: its full name, and the key that its kernel is for.
struct Deferred {
  std::string part, key, name;
};

// Registers stand-ins, once. `load` loads a part, or raises.
void defer(const std::vector<Deferred>& operators, std::function<void(const std::string& part)> load);

// Gives a stand-in its kernel; false where none stands in for that operator.
bool fill(c10::DispatchKey key, const std::string& name, const c10::BoxedKernel& kernel);

// Of a part that is loaded: operators that it has no kernels for, in this version of PyTorch.
std::vector<std::string> find_unfilled(const std::string& part);

}  // namespace hostdevice
