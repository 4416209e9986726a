// Refusals of an Apple GPU, with the messages of PyTorch's MPS backend. Compiled for CUDA, nothing is refused here.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>

#include "operators/types.h"
#include "runtime/device.h"

namespace hostdevice {

// Refuse to create a tensor of this dtype. With given strides, PyTorch does not check complex128.
inline void check_storable(c10::ScalarType type, bool strides_given = false) {
  if (kIsCuda) return;
  TORCH_CHECK_TYPE(
      type != at::kDouble && (type != at::kComplexDouble || kMpsHoldsComplexDouble || strides_given),
      "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. Please use float32 "
      "instead.");
}

// Refuse dtypes that Metal cannot compute with.
inline void check_computable(c10::ScalarType type) {
  if (kIsCuda) return;
  const bool known = at::isIntegralType(type, true) || type == at::kFloat || type == at::kHalf ||
      type == at::kBFloat16 || type == at::kComplexFloat || type == at::kComplexHalf || c10::isQIntType(type);
  TORCH_CHECK_TYPE(
      known, "Trying to convert ", type, " to the MPS backend but it does not have support for that dtype.");
}

// Dtypes of the first tensor that an operator's MPS kernel refuses.
struct Limit {
  const char* op;
  Types refused;
  const char* message;
};
constexpr Limit kLimits[] = {
#include "contract/mps_refuses.inc"
};

// The engine that copies to the CPU writes words of four bytes.
inline void check_aligned(const void* to) {
  TORCH_INTERNAL_ASSERT(reinterpret_cast<uintptr_t>(to) % 4 == 0, "Unaligned blit request");
}

}  // namespace hostdevice
