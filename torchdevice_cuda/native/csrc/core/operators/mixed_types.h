// Arguments of several types of numbers: where CUDA's kernels refuse them otherwise than the CPU's, or the CPU's do
// not.
#pragma once

#include <ATen/core/stack.h>

#include <string_view>

#include "operators/types.h"

namespace hostdevice {

inline constexpr Types kFractions = kHalves | kFloats | kComplexHalf | kComplex;

struct MixedRow {
  const char* op;
  // Raises as CUDA does, or makes the arguments what CUDA makes of them.
  void (*check)(torch::jit::Stack& stack, size_t base);
};

// The operator's row; null where the CPU's kernel does as CUDA's.
const MixedRow* find_mixed_row(std::string_view name);

// Whether tensors among the arguments, which start at `base`, have several types. Single numbers do not count.
bool are_mixed(const torch::jit::Stack& stack, size_t base);

}  // namespace hostdevice
