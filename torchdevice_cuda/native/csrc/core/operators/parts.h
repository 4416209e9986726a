// Parts of the device, loaded when one of their operators is first called. Each such operator has a stand-in kernel,
// which calls the part's kernel once it is loaded, so that nothing is registered while other threads compute.
#pragma once

#include <ATen/core/boxing/BoxedKernel.h>
#include <c10/core/DispatchKey.h>

#include <functional>
#include <string>
#include <vector>

namespace hostdevice {

// An operator of a part: its full name and the dispatch key of its kernel.
struct DeferredOperator {
  std::string part, key, name;
};

// Register stand-ins, once. `load` loads a part, or throws.
void register_stand_ins(
    const std::vector<DeferredOperator>& operators, std::function<void(const std::string& part)> load);

// Set the kernel of a stand-in; return false if the operator has none.
bool set_kernel(c10::DispatchKey key, const std::string& name, const c10::BoxedKernel& kernel);

// Return the operators of a loaded part for which it has no kernel in this version of PyTorch.
std::vector<std::string> find_unfilled(const std::string& part);

}  // namespace hostdevice
