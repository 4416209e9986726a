// Kernels in a GPU's profile that programs look for: those that take whole lists of tensors.
#pragma once

#include <ATen/core/stack.h>

namespace hostdevice {

struct OperatorInfo;

// Return the name of the CUDA kernel that would compute this call of a list operator; null if CUDA would use one kernel
// per tensor, or none. Takes the original tensors, since the device of each counts.
const char* list_kernel(const OperatorInfo& f, const torch::jit::Stack& stack, size_t base);

}  // namespace hostdevice
