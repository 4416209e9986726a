// Results that meta kernels do not describe: their sizes depend on elements, or a GPU's differ from what they return.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <string>
#include <vector>

namespace hostdevice {

// Allocates the results of a call. If their sizes depend on elements, they are as large as they can be: as if all
// elements were different and none was zero.
struct OwnResults {
  torch::jit::Stack (*make)(const std::vector<c10::IValue>& arguments);
  bool depends_on_elements;
};
// Return how an operator's results are allocated, by its name with the namespace; null: its meta kernel knows.
const OwnResults* find_own_results(const std::string& name);

// Replace masks among indices by as many indices as a mask of ones selects; return whether there were any.
bool replace_masks(c10::IValue& indices);

}  // namespace hostdevice
