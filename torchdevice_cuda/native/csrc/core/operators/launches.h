// Kernels that a profile of a GPU names and programs look for: those that take whole lists of tensors at once.
#pragma once

#include <ATen/core/stack.h>

namespace hostdevice {

struct Facts;

// CUDA's name of the kernel that would compute this call, for operators on lists; null where it would be several, each
// of one tensor, or none. Tensors have to be as they came: the device of each counts.
const char* list_kernel(const Facts& f, const torch::jit::Stack& stack, size_t base);

}  // namespace hostdevice
