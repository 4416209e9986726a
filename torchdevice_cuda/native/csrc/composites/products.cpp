// Matrix products that only CUDA has: with another result type than that of the inputs, and with 4-bit weights. Also
// lists of products.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/stack.h>

#include <vector>

#include "operators/composites.h"

namespace hostdevice {
namespace {

using at::Scalar;
using at::ScalarType;
using at::Tensor;

// Call mm for each pair, which checks the types: the CPU's kernel for lists multiplies any type.
std::vector<Tensor> multiply_lists(at::TensorList first, at::TensorList second) {
  TORCH_CHECK(!first.empty(), "Tensor list must have at least one tensor.");
  TORCH_CHECK(
      first.size() == second.size(), "Tensor lists must have the same number of tensors, got ", first.size(), " and ",
      second.size());
  std::vector<Tensor> made;
  made.reserve(first.size());
  for (size_t i = 0; i < first.size(); i++) made.push_back(at::mm(first[i], second[i]));
  return made;
}

// ---- result types -------------------------------------------------------------------------------------------------

void check_types(const Tensor& a, const Tensor& b, ScalarType type) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "input dtypes must be the same");
  TORCH_CHECK(
      type == a.scalar_type() ||
          (type == at::kFloat && (a.scalar_type() == at::kHalf || a.scalar_type() == at::kBFloat16)),
      "out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs");
}
void check_sum_type(const Tensor& self, const Tensor& a, ScalarType type, const char* name) {
  TORCH_CHECK(
      self.scalar_type() == type || self.scalar_type() == a.scalar_type(), "self dtype must match either out_dtype or ",
      name, " dtype");
}
Tensor& write_result(Tensor& out, ScalarType type, const Tensor& result) {
  TORCH_CHECK(type == out.scalar_type(), "out_dtype must be the same as the dtype of the provided out tensor");
  out.resize_(result.sizes());
  return out.copy_(result);
}

Tensor mm_dtype(const Tensor& a, const Tensor& b, ScalarType type) {
  check_types(a, b, type);
  return at::mm(a.to(type), b.to(type));
}
Tensor& mm_dtype_out(const Tensor& a, const Tensor& b, ScalarType type, Tensor& out) {
  return write_result(out, type, mm_dtype(a, b, type));
}
Tensor bmm_dtype(const Tensor& a, const Tensor& b, ScalarType type) {
  check_types(a, b, type);
  return at::bmm(a.to(type), b.to(type));
}
Tensor& bmm_dtype_out(const Tensor& a, const Tensor& b, ScalarType type, Tensor& out) {
  return write_result(out, type, bmm_dtype(a, b, type));
}
Tensor addmm_dtype(
    const Tensor& self, const Tensor& a, const Tensor& b, ScalarType type, const Scalar& beta, const Scalar& alpha) {
  check_types(a, b, type);
  check_sum_type(self, a, type, "mat1");
  return at::addmm(self.to(type), a.to(type), b.to(type), beta, alpha);
}
Tensor& addmm_dtype_out(
    const Tensor& self, const Tensor& a, const Tensor& b, ScalarType type, const Scalar& beta, const Scalar& alpha,
    Tensor& out) {
  return write_result(out, type, addmm_dtype(self, a, b, type, beta, alpha));
}
Tensor baddbmm_dtype(
    const Tensor& self, const Tensor& a, const Tensor& b, ScalarType type, const Scalar& beta, const Scalar& alpha) {
  check_types(a, b, type);
  check_sum_type(self, a, type, "batch1");
  return at::baddbmm(self.to(type), a.to(type), b.to(type), beta, alpha);
}
Tensor& baddbmm_dtype_out(
    const Tensor& self, const Tensor& a, const Tensor& b, ScalarType type, const Scalar& beta, const Scalar& alpha,
    Tensor& out) {
  return write_result(out, type, baddbmm_dtype(self, a, b, type, beta, alpha));
}

// ---- 4-bit weights ------------------------------------------------------------------------------------------------

// CUDA orders packed weights by the threads that read them. Here only the product reads them, so they have CUDA's shape
// but keep the given order: two weights per byte, the first in the upper half.
constexpr int64_t kTileN = 8, kTileK = 16, kThreads = 32;

Tensor pack_int4(const Tensor& weight, int64_t inner) {
  TORCH_CHECK(
      weight.dtype() == at::kByte,
      "Expected in.dtype() == at::kByte to be true, but got false.  (Could this error message be improved?  If so, "
      "please report an enhancement request to PyTorch.)");
  TORCH_CHECK(
      weight.dim() == 2,
      "Expected in.dim() == 2 to be true, but got false.  (Could this error message be improved?  If so, please report "
      "an enhancement request to PyTorch.)");
  TORCH_CHECK(inner == 2 || inner == 4 || inner == 8, "innerKTiles need to be 2, 4, or 8");
  const int64_t n = weight.size(0), k = weight.size(1) * 2;
  TORCH_CHECK(
      n % kTileN == 0 && k % (inner * kTileK) == 0,
      "_convert_weight_to_int4pack: sizes are not multiples of the tiles'");
  return weight.contiguous().view(at::kInt).reshape({n / kTileN, k / (inner * kTileK), kThreads, inner / 2}).clone();
}

Tensor int4_product(const Tensor& a, const Tensor& packed, int64_t group, const Tensor& scales_and_zeros) {
  TORCH_CHECK(a.dtype() == at::kBFloat16 && a.dim() == 2, "_weight_int4pack_mm: expected a 2D bfloat16 input");
  TORCH_CHECK(packed.dtype() == at::kInt && packed.dim() == 4, "_weight_int4pack_mm: expected packed int32 weights");
  TORCH_CHECK(group == 32 || group == 64 || group == 128 || group == 256, "_weight_int4pack_mm: group size ", group);
  const int64_t n = packed.size(0) * kTileN, k = a.size(1);
  const Tensor bytes = packed.contiguous().view(at::kByte).reshape({n, k / 2});
  const Tensor levels =
      at::stack({bytes.bitwise_right_shift(4), bytes.bitwise_and(15)}, -1).view({n, k / group, group});
  const Tensor scales = scales_and_zeros.to(at::kFloat).permute({1, 0, 2}).unsqueeze(2);  // n, groups, 1, 2
  const Tensor weight = (levels.to(at::kFloat) - 8) * scales.select(-1, 0) + scales.select(-1, 1);
  return at::matmul(a.to(at::kFloat), weight.view({n, k}).to(at::kBFloat16).to(at::kFloat).t()).to(at::kBFloat16);
}

}  // namespace

void register_products(Registrar& registrar) {
  registrar.impl_where_known("_foreach_mm", TORCH_FN(multiply_lists));
  registrar.impl_where_known("mm.dtype", TORCH_FN(mm_dtype));
  registrar.impl_where_known("mm.dtype_out", TORCH_FN(mm_dtype_out));
  registrar.impl_where_known("bmm.dtype", TORCH_FN(bmm_dtype));
  registrar.impl_where_known("bmm.dtype_out", TORCH_FN(bmm_dtype_out));
  registrar.impl_where_known("addmm.dtype", TORCH_FN(addmm_dtype));
  registrar.impl_where_known("addmm.dtype_out", TORCH_FN(addmm_dtype_out));
  registrar.impl_where_known("baddbmm.dtype", TORCH_FN(baddbmm_dtype));
  registrar.impl_where_known("baddbmm.dtype_out", TORCH_FN(baddbmm_dtype_out));
  registrar.impl_where_known("_convert_weight_to_int4pack", TORCH_FN(pack_int4));
  registrar.impl_where_known("_weight_int4pack_mm", TORCH_FN(int4_product));
}

}  // namespace hostdevice
