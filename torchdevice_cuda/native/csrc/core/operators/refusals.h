// What an Apple GPU refuses, in the words of PyTorch's MPS backend. As CUDA there are no limits.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>

#include "operators/types.h"
#include "runtime/device.h"

namespace hostdevice {

// No tensor of this type can be made. Where strides are given, PyTorch forgets that complex128 is made of float64.
inline void check_holds(c10::ScalarType type, bool strides_given = false) {
  if (kIsCuda) return;
  TORCH_CHECK_TYPE(
      type != at::kDouble && (type != at::kComplexDouble || kMpsHoldsComplexDouble || strides_given),
      "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. Please use float32 "
      "instead.");
}

// Metal has no code for this type.
inline void check_computes(c10::ScalarType type) {
  if (kIsCuda) return;
  const bool known = at::isIntegralType(type, true) || type == at::kFloat || type == at::kHalf ||
      type == at::kBFloat16 || type == at::kComplexFloat || type == at::kComplexHalf || c10::isQIntType(type);
  TORCH_CHECK_TYPE(
      known, "Trying to convert ", type, " to the MPS backend but it does not have support for that dtype.");
}

// Operators with a kernel that is not for every type: what their first tensor may not be.
struct Limit {
  const char* op;
  Types refused;
  const char* words;
};
constexpr Limit kLimits[] = {
#include "contract/mps_refuses.inc"
};

// Copies to the CPU are made by a part of the GPU that writes words of four bytes.
inline void check_aligned(const void* to) {
  TORCH_INTERNAL_ASSERT(reinterpret_cast<uintptr_t>(to) % 4 == 0, "Unaligned blit request");
}

}  // namespace hostdevice
