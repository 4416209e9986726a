// Which types CUDA's kernels take where the CPU's take others, how they refuse the rest, and several types in one call.
#pragma once

#include <ATen/core/stack.h>

#include "operators/rows.h"

namespace hostdevice {

inline constexpr Types kFractions = kHalves | kFloats | kComplexHalf | kComplex;

// Raises if CUDA's kernel has no code for the type of the arguments, which start at `base`.
void check_taken(const Row& row, const torch::jit::Stack& stack, size_t base);

// Whether tensors among the arguments, which start at `base`, have several types. Single numbers do not count.
bool are_mixed(const torch::jit::Stack& stack, size_t base);

}  // namespace hostdevice
