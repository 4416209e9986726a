// What an Apple GPU refuses, in the words of PyTorch's MPS backend. As CUDA there are no limits.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <cstring>
#include <string>

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

// Operators with a kernel that is not for every type; what their first tensor may not be.
struct Limit {
  const char* name;
  bool (*refused)(c10::ScalarType);
  const char* words;
};
inline bool is_complex(c10::ScalarType type) {
  return at::isComplexType(type);
}
inline bool is_long(c10::ScalarType type) {
  return type == at::kLong;
}
inline bool is_not_float(c10::ScalarType type) {
  return type != at::kFloat;
}
inline bool is_integral(c10::ScalarType type) {
  return at::isIntegralType(type, true);
}
constexpr Limit kLimits[] = {
    {"aten::linalg_qr", is_not_float, "linalg_qr: MPS currently supports float32 only"},
    {"aten::linalg_solve_triangular", is_not_float, "linalg.solve.triangular(); Only float is supported!"},
    {"aten::cholesky_inverse", is_not_float, "cholesky_inverse: MPS only supports float type!"},
    {"aten::addr", is_integral, "MPS device does not support addr for non-float input"},
    {"aten::addr_", is_integral, "MPS device does not support addr for non-float input"},
    {"aten::linalg_inv_ex", is_complex, "linalg_inv: not supported for complex types yet!"},
    {"aten::linalg_lu_factor_ex", is_complex, "linalg.lu_factor(): MPS doesn't support complex types."},
    {"aten::_linalg_solve_ex", is_complex, "linalg.lu_factor(): MPS only supports floats."},
    {"aten::index_reduce", is_complex, "index_reduce for MPS does not support torch.cfloat dtype"},
    {"aten::index_reduce_", is_complex, "index_reduce for MPS does not support torch.cfloat dtype"},
    {"aten::index_reduce", is_long, "index_reduce for MPS does not support torch.long dtype"},
    {"aten::index_reduce_", is_long, "index_reduce for MPS does not support torch.long dtype"},
};

// Kernels that read the memory of a tensor without a look at where it is.
inline bool takes_any_memory(const std::string& name) {
  return name == "aten::linalg_solve_triangular" || name == "aten::linalg_lu_solve";
}

// Copies to the CPU are made by a part of the GPU that writes words of four bytes.
inline void check_aligned(const void* to) {
  TORCH_INTERNAL_ASSERT(reinterpret_cast<uintptr_t>(to) % 4 == 0, "Unaligned blit request");
}

// Operators that look at a tensor or its bytes and compute nothing.
inline bool only_moves(const std::string& name) {
  for (const char* one :
       {"aten::_local_scalar_dense", "aten::zero_", "aten::set_", "aten::resize_", "aten::copy_", "aten::_copy_from",
        "aten::_copy_from_and_resize"})
    if (name == one) return true;
  return false;
}

}  // namespace hostdevice
