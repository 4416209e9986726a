// Results whose sizes depend on elements that were not computed.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <vector>

#include "runtime/device.h"

namespace hostdevice {

// Whether the sizes of an operator's results depend on elements.
bool has_unknown_sizes(const std::string& operator_name);
// Allocate the results as large as they can be: as if all elements were different and none was zero.
torch::jit::Stack make_largest_results(
    const std::string& operator_name, const std::vector<c10::IValue>& arguments, c10::DeviceIndex index);

// Replace masks among indices by as many indices as a mask of ones selects; return whether there were any.
bool replace_masks(c10::IValue& indices);

}  // namespace hostdevice
