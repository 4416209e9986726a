// Dtypes that CUDA's kernels take where the CPU's differ, how they refuse others, and calls with several dtypes.
#pragma once

#include <ATen/core/stack.h>

#include "operators/rows.h"

namespace hostdevice {

inline constexpr Types kFractions = kHalves | kFloats | kComplexHalf | kComplex;

// Raise if CUDA's kernel is not compiled for the dtype of the arguments, which start at `base`.
void check_dtype(const Row& row, const torch::jit::Stack& stack, size_t base);

// Whether tensors among the arguments, which start at `base`, have several dtypes. Tensors without dimensions do not
// count.
bool are_mixed(const torch::jit::Stack& stack, size_t base);

}  // namespace hostdevice
