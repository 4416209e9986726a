// Scaled products of 8-bit float matrices: one scale per matrix, per row, per 128 elements of a row, or per block of
// 128 by 128. Accepted arguments and errors are those of cuBLASLt on an H200.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "compat.h"
#include "operators/composites.h"
#include "runtime/capability.h"

namespace hostdevice {
namespace {

using at::IntArrayRef;
using at::ScalarType;
using at::Tensor;
using at::TensorList;
using OptType = std::optional<ScalarType>;

// The scaling of a matrix, with the values of PyTorch's ScalingType.
enum class Scaling : int64_t { Whole = 0, Rows = 1, Block1x16 = 2, Block1x32 = 3, Block1x128 = 4, Block128x128 = 5 };
using Pair = std::pair<Scaling, Scaling>;
constexpr int64_t kBlock = 128;
constexpr const char* kNoDevice =
    "torch._scaled_mm is only supported on CUDA devices with compute capability >= 9.0 or 8.9, or ROCm MI300+";

int64_t blocks(int64_t size, int64_t of = kBlock) {
  return (size + of - 1) / of;
}
int64_t padded(int64_t size, int64_t to) {
  return blocks(size, to) * to;
}
bool is_eight_bits(ScalarType type) {
  return c10::isFloat8Type(type);
}

// ---- kinds of scaling ----------------------------------------------------------------------------------------------

// Check the size and the stride of a dimension. A dimension of size 1 may have any stride.
bool has_layout(const Tensor& scale, int64_t dim, int64_t size, int64_t stride) {
  return scale.size(dim) == size && (size <= 1 || scale.stride(dim) == stride);
}

// Return whether a scale has this kind, for a matrix whose last dimension is the one that is summed over.
bool is_scaled(const Tensor& matrix, const Tensor& scale, Scaling how) {
  const int64_t rows = matrix.size(0), inner = matrix.size(1);
  if (how == Scaling::Block1x32)
    return is_eight_bits(matrix.scalar_type()) && is_power_of_two(scale.scalar_type()) &&
        scale.numel() == padded(rows, kBlock) * padded(blocks(inner, 32), 4) && scale.is_contiguous();
  if (!is_eight_bits(matrix.scalar_type()) || scale.scalar_type() != at::kFloat) return false;
  if (how == Scaling::Whole) return scale.numel() == 1;
  if (scale.dim() != 2) return false;
  if (how == Scaling::Rows) return scale.size(0) == rows && scale.size(1) == 1 && scale.is_contiguous();
  if (how == Scaling::Block1x128) return has_layout(scale, 0, rows, 1) && has_layout(scale, 1, blocks(inner), rows);
  return has_layout(scale, 0, blocks(rows), blocks(inner)) && has_layout(scale, 1, blocks(inner), 1);
}

constexpr std::array<Pair, 6> kPairs{
    Pair{Scaling::Whole, Scaling::Whole},
    Pair{Scaling::Rows, Scaling::Rows},
    Pair{Scaling::Block128x128, Scaling::Block1x128},
    Pair{Scaling::Block1x128, Scaling::Block128x128},
    Pair{Scaling::Block1x128, Scaling::Block1x128},
    Pair{Scaling::Block1x32, Scaling::Block1x32},
};

// Return the error message for scales that match no kind. `listed`: for the operator that takes lists of scales.
std::string describe_mismatch(
    const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b, bool listed) {
  const int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  const char *matrix = listed ? "mat_" : "", *which = listed ? "[0]" : "";
  return c10::str(
      "Invalid scaling configuration.\n"
      "- For TensorWise scaling, a and b should be float8, scales should be float and singletons.\n"
      "- For RowWise scaling, a and b should be float8, scales should be float, scale_a should be (",
      m, ", 1) and scale_b should be (1, ", n,
      "), and both should be contiguous.\n"
      "- For BlockWise 1x128 scaling, a and b should be float8, scales should be float, scale_a should be (",
      m, ", ", blocks(k), ") and scale_b should be (", blocks(k), ", ", n,
      "), and both should be outer-dim-major.\n"
      "- For BlockWise 128x128 scaling, a and b should be float8, scales should be float, scale_a should be (",
      blocks(m), ", ", blocks(k), ") and scale_b should be (", blocks(k), ", ", blocks(n),
      "), and both should be near-inner-dim-major (with 16-byte aligned strides).\n"
      "- For Blockwise 1x32 scaling, a and b should be float8, scales should be float8_e8m0fnu, scale_a should have ",
      padded(m, kBlock) * padded(blocks(k, 32), 4), " elements and scale_b should have ",
      padded(n, kBlock) * padded(blocks(k, 32), 4),
      " elements, and both should be contiguous.\n"
      "- For Blockwise 1x16 scaling, a and b should be float4 (packed 2x), scales should be float8_e4m3fn, scale_a "
      "should have ",
      padded(m, kBlock) * padded(blocks(2 * k, 16), 4), " elements and scale_b should have ",
      padded(n, kBlock) * padded(blocks(2 * k, 16), 4), " elements, and both should be contiguous.\nGot ", matrix,
      "a.dtype()=", a.scalar_type(), ", scale_a", which, ".dtype()=", scale_a.scalar_type(), ", scale_a", which,
      ".size()=", scale_a.sizes(), ", scale_a", which, ".stride()=", scale_a.strides(), ", ", matrix,
      "b.dtype()=", b.scalar_type(), ", scale_b", which, ".dtype()=", scale_b.scalar_type(), ", scale_b", which,
      ".size()=", scale_b.sizes(), " and scale_b", which, ".stride()=", scale_b.strides());
}

// ---- checks of cuBLASLt --------------------------------------------------------------------------------------------

[[noreturn]] void refuse_as_blas(const char* status) {
  TORCH_CHECK(
      false, "CUDA error: CUBLAS_STATUS_", status,
      " when calling `cublasLtMatmulAlgoGetHeuristic( ltHandle, computeDesc.descriptor(), Adesc.descriptor(), "
      "Bdesc.descriptor(), Cdesc.descriptor(), Ddesc.descriptor(), preference.descriptor(), 1, &heuristicResult, "
      "&returnedResult)`");
  __builtin_unreachable();
}

void check_types(const Tensor& a, const Tensor& b, ScalarType type, const Pair& how) {
  const auto capability = g_capability;
  TORCH_CHECK(
      capability.major != 9 || (a.stride(1) == 1 && b.stride(0) == 1),
      "Only multiplication of row-major and column-major matrices is supported by cuBLASLt");
  const bool has_wide = a.scalar_type() == ScalarType::Float8_e5m2 || b.scalar_type() == ScalarType::Float8_e5m2;
  const bool into_wide = type == ScalarType::Float8_e5m2;
  if (how.first == Scaling::Block1x32 || (into_wide && !has_wide)) refuse_as_blas("NOT_SUPPORTED");
  if (how.first != Scaling::Whole && is_eight_bits(type)) refuse_as_blas("INVALID_VALUE");
}

// Both operators raise the same messages, with different types.
#define CHECK_AS(condition, ...)                         \
  do {                                                   \
    if (!(condition)) {                                  \
      const std::string message = c10::str(__VA_ARGS__); \
      if (listed) TORCH_CHECK_VALUE(false, message);     \
      TORCH_CHECK(false, message);                       \
    }                                                    \
  } while (false)

void check_sizes(const Tensor& a, const Tensor& b, const OptTensor& bias, bool listed) {
  CHECK_AS(
      !is_defined(bias) || bias->numel() == b.size(1), "Bias must be size ", b.size(1), " but got ", bias->numel());
  CHECK_AS(
      a.size(1) % 16 == 0, "Expected trailing dimension of mat1 to be divisible by 16 but got mat1 shape: (", a.size(0),
      "x", a.size(1), ").");
  CHECK_AS(
      b.size(0) % 16 == 0 && b.size(1) % 16 == 0, "mat2 shape (", b.size(0), "x", b.size(1),
      ") must be divisible by 16");
}
void check_matrices(
    const Tensor& a, const Tensor& b, const OptTensor& bias, OptType asked, ScalarType type, bool listed) {
  const char *first = listed ? "mat_a" : "mat1", *second = listed ? "mat_b" : "mat2";
  CHECK_AS(!asked || *asked == type, "out_dtype must match output matrix type");
  CHECK_AS(
      is_eight_bits(a.scalar_type()), "Expected ", first, " to be Float8 or Float4_x2 matrix got ", a.scalar_type());
  CHECK_AS(
      is_eight_bits(b.scalar_type()), "Expected ", second, " to be Float8 or Float4_x2 matrix got ", b.scalar_type());
  TORCH_CHECK_VALUE(
      a.scalar_type() != ScalarType::Float8_e5m2 || b.scalar_type() != ScalarType::Float8_e5m2,
      "Multiplication of two Float8_e5m2 matrices is not supported");
  if (!is_defined(bias)) return;
  const auto added = bias->scalar_type();
  CHECK_AS(type != at::kFloat, "Bias is not supported when out_dtype is set to Float32");
  CHECK_AS(added == at::kBFloat16 || added == at::kHalf, "Bias must be BFloat16 or Half, but got ", added);
  CHECK_AS(
      type != at::kBFloat16 || added == at::kBFloat16, "Bias must be BFloat16 to compute ", type, " output, but got ",
      added);
  CHECK_AS(
      type != at::kHalf || added == at::kHalf, "Bias must be Float16 to compute ", type, " output, but got ", added);
}

// ---- product -------------------------------------------------------------------------------------------------------

// Expand block scales to one scale per element.
Tensor expand_scale(const Tensor& scale, const Tensor& matrix, Scaling how) {
  Tensor wide = scale.repeat_interleave(kBlock, 1).narrow(1, 0, matrix.size(1));
  return how == Scaling::Block1x128 ? wide : wide.repeat_interleave(kBlock, 0).narrow(0, 0, matrix.size(0));
}

// `scale_b` belongs to the transpose of `b`.
void multiply(
    const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b, const Pair& how,
    const OptTensor& bias, Tensor& out) {
  const auto type = out.scalar_type();
  const auto capability = g_capability;
  TORCH_CHECK_VALUE(
      how.first != Scaling::Rows || capability.major == 9 || type == at::kBFloat16 || type == at::kHalf,
      "Only bf16 and fp16 high precision output types are supported for row-wise scaling.");
  check_types(a, b, type, how);
  Tensor left = a.to(at::kFloat), right = b.t().to(at::kFloat), made;
  if (how.first == Scaling::Whole || how.first == Scaling::Rows) {
    // Scale the sums, like cuBLASLt.
    const bool rows = how.first == Scaling::Rows;
    const Tensor of_rows = rows ? scale_a.reshape({-1, 1}) : scale_a.reshape({});
    const Tensor of_columns = rows ? scale_b.reshape({1, -1}) : scale_b.reshape({});
    made = at::mm(left, right.t()) * of_rows * of_columns;
  } else {
    made =
        at::mm(left * expand_scale(scale_a, left, how.first), (right * expand_scale(scale_b, right, how.second)).t());
  }
  if (is_defined(bias)) made = made + bias->to(at::kFloat);
  // Saturate values that are too large for 8 bits.
  if (type == ScalarType::Float8_e4m3fn) made = made.clamp(-448, 448);
  if (type == ScalarType::Float8_e5m2) made = made.clamp(-57344, 57344);
  out.copy_(made);
}

bool is_done_when_empty(const Tensor& a, const Tensor& b, Tensor& out) {
  if (a.size(0) != 0 && a.size(1) != 0 && b.size(1) != 0) return false;
  if (a.size(1) == 0) out.zero_();
  return true;
}

bool is_allowed() {
  const auto capability = g_capability;
  return capability.major >= 9 || (capability.major == 8 && capability.minor == 9);
}

// The scale of the result is checked but not applied.
Tensor& scaled_mm_out(
    const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b, const OptTensor& bias,
    const OptTensor& of_result, OptType asked, bool, Tensor& out) {
  TORCH_CHECK(is_allowed(), kNoDevice);
  TORCH_CHECK(a.dim() == 2, "mat1 must be a matrix");
  TORCH_CHECK(b.dim() == 2, "mat2 must be a matrix");
  TORCH_CHECK(
      a.size(1) == b.size(0), "mat1 and mat2 shapes cannot be multiplied (", a.size(0), "x", a.size(1), " and ",
      b.size(0), "x", b.size(1), ")");
  std::optional<Pair> how;
  for (const auto& pair : kPairs) {
    const bool swizzled = pair.second == Scaling::Block1x32;
    if (!swizzled && scale_b.dim() > 2) continue;
    if (!how && is_scaled(a, scale_a, pair.first) && is_scaled(b.t(), swizzled ? scale_b : scale_b.t(), pair.second))
      how = pair;
  }
  TORCH_CHECK(how.has_value(), describe_mismatch(a, b, scale_a, scale_b, false));
  TORCH_CHECK(
      !is_defined(of_result) || (of_result->numel() == 1 && of_result->scalar_type() == at::kFloat),
      "scale_result must be a float scalar");
  check_sizes(a, b, bias, false);
  check_matrices(a, b, bias, asked, out.scalar_type(), false);
  at::native::resize_output(out, {a.size(0), b.size(1)});
  if (is_done_when_empty(a, b, out)) return out;
  multiply(a, b, scale_a, how->second == Scaling::Block1x32 ? scale_b : scale_b.t(), *how, bias, out);
  return out;
}
Tensor scaled_mm(
    const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b, const OptTensor& bias,
    const OptTensor& of_result, OptType asked, bool fast) {
  Tensor out = at::empty({0}, a.options().dtype(asked.value_or(a.scalar_type())));
  return scaled_mm_out(a, b, scale_a, scale_b, bias, of_result, asked, fast, out);
}

// ---- lists of scales with explicit kinds ---------------------------------------------------------------------------

void check_scale(const Tensor& matrix, const Tensor& scale, Scaling how, const char* name) {
  const int64_t rows = matrix.size(0), inner = matrix.size(1);
  const bool is_first = name[0] == 'a';
  if (how == Scaling::Whole) {
    TORCH_CHECK_VALUE(scale.numel() == 1, "scale_", name, " must have 1 Float element");
  } else if (how == Scaling::Rows) {
    TORCH_CHECK_VALUE(
        !is_first || (scale.dim() == 2 && scale.size(0) == rows && scale.size(1) == 1), "scale_a must have shape [",
        rows, ", 1], got [", scale.sizes(), "]");
    TORCH_CHECK_VALUE(
        scale.numel() == rows, "scale_", name, " must have ", rows, " Float elements, got ", scale.numel());
    TORCH_CHECK_VALUE(
        is_first || scale.stride(1) == 1, "expected scale_b.stride(1) to be 1, but got ", scale.stride(1));
  } else {
    // A 128x128 scale is transposed, and padded to a multiple of four.
    const bool squares = how == Scaling::Block128x128;
    const int64_t first = squares ? padded(blocks(inner), 4) : rows, second = squares ? blocks(rows) : blocks(inner);
    TORCH_CHECK_VALUE(
        scale.dim() == 2 && scale.size(0) == first && scale.size(1) == second, "scale_", name, " must have shape ",
        first, " x ", second, " Float elements, got ", scale.sizes());
    TORCH_CHECK_VALUE(
        scale.stride(0) == 1 && (scale.stride(1) == first || (second == 1 && scale.stride(1) == 1)), "scale_", name,
        squares ? " must have strides (" : " strides must be (", 1, ", ", first,
        squares ? "); got " : "); got: ", scale.strides());
  }
}

// Return a scale in the layout that multiply() takes: rows of blocks of the matrix, or of its transpose.
Tensor as_rows(const Tensor& matrix, const Tensor& scale, Scaling how) {
  return how == Scaling::Block128x128 ? scale.narrow(0, 0, blocks(matrix.size(1))).t() : scale;
}

std::optional<Pair> find_pair(
    const Tensor& a, TensorList scales_a, IntArrayRef first, const Tensor& b, TensorList scales_b, IntArrayRef second) {
  if (scales_a.size() != 1 || scales_b.size() != 1 || first.size() != 1 || second.size() != 1) return std::nullopt;
  const Pair asked{static_cast<Scaling>(first[0]), static_cast<Scaling>(second[0])};
  const auto fits = [&asked](ScalarType type) {
    return asked.first == Scaling::Block1x32 ? is_power_of_two(type) : type == at::kFloat;
  };
  if (!is_eight_bits(a.scalar_type()) || !is_eight_bits(b.scalar_type())) return std::nullopt;
  if (!fits(scales_a[0].scalar_type()) || !fits(scales_b[0].scalar_type())) return std::nullopt;
  for (const auto& pair : kPairs)
    if (pair == asked) return pair;
  return std::nullopt;
}

Tensor& scaled_mm_v2_out(
    const Tensor& a, const Tensor& b, TensorList scales_a, IntArrayRef recipe_a, IntArrayRef, TensorList scales_b,
    IntArrayRef recipe_b, IntArrayRef, const OptTensor& bias, OptType asked, IntArrayRef contracted, bool,
    Tensor& out) {
  TORCH_CHECK_NOT_IMPLEMENTED(is_allowed(), kNoDevice);
  TORCH_CHECK_VALUE(a.dim() == 2, "mat_a must be a matrix");
  TORCH_CHECK_VALUE(b.dim() == 2, "mat_b must be a matrix");
  at::native::resize_output(out, {a.size(0), b.size(1)});
  if (is_done_when_empty(a, b, out)) return out;
  TORCH_CHECK_VALUE(contracted.empty() || contracted.size() == 2, "contraction_dim must have exactly 2 elements");
  TORCH_CHECK_NOT_IMPLEMENTED(
      contracted.empty() || (contracted[0] == 1 && contracted[1] == 0),
      "The virtual GPU multiplies rows of mat_a and columns of mat_b: contraction_dim ", contracted);
  TORCH_CHECK_VALUE(
      a.size(1) == b.size(0), "mat_a and mat_b shapes cannot be multiplied (", a.size(0), "x", a.size(1), " and ",
      b.size(0), "x", b.size(1), ")");
  check_sizes(a, b, bias, true);
  check_matrices(a, b, bias, asked, out.scalar_type(), true);
  const auto how = find_pair(a, scales_a, recipe_a, b, scales_b, recipe_b);
  TORCH_CHECK_VALUE(how.has_value(), describe_mismatch(a, b, scales_a[0], scales_b[0], true));
  const Tensor turned = b.t();
  if (how->first != Scaling::Block1x32) {
    check_scale(a, scales_a[0], how->first, "a");
    check_scale(turned, scales_b[0], how->second, "b");
  }
  multiply(a, b, as_rows(a, scales_a[0], how->first), as_rows(turned, scales_b[0], how->second), *how, bias, out);
  return out;
}

#undef CHECK_AS

// Boxed, because the C++ type of a list of tensors depends on the release; the stack is the same in all releases.
constexpr size_t kArgumentsV2 = 12;
void scaled_mm_v2_boxed(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size(), base = stack->size() - count;
  const auto at = [&](size_t i) -> const c10::IValue& { return (*stack)[base + i]; };
  const auto scales_a = at(2).toTensorVector(), scales_b = at(5).toTensorVector();
  const auto recipe_a = at(3).toIntVector(), swizzle_a = at(4).toIntVector();
  const auto recipe_b = at(6).toIntVector(), swizzle_b = at(7).toIntVector(), contracted = at(10).toIntVector();
  const Tensor a = at(0).toTensor(), b = at(1).toTensor();
  const auto bias = at(8).toOptional<Tensor>();
  const auto asked = at(9).toOptional<at::ScalarType>();
  const bool fast = at(11).toBool();
  Tensor out = count > kArgumentsV2 ? at(kArgumentsV2).toTensor()
                                    : at::empty({0}, a.options().dtype(asked.value_or(a.scalar_type())));
  scaled_mm_v2_out(
      a, b, scales_a, recipe_a, swizzle_a, scales_b, recipe_b, swizzle_b, bias, asked, contracted, fast, out);
  torch::jit::drop(*stack, count);
  stack->emplace_back(std::move(out));
}

}  // namespace

void register_scaled_products(Registrar& registrar) {
  registrar.impl_where_known("_scaled_mm", TORCH_FN(scaled_mm));
  registrar.impl_where_known("_scaled_mm.out", TORCH_FN(scaled_mm_out));
  for (const auto& [name, count] :
       {std::pair("_scaled_mm_v2", kArgumentsV2), {"_scaled_mm_v2.out", kArgumentsV2 + 1}}) {
    const auto op = find_aten(name);
    if (op && op->schema().arguments().size() == count) registrar.impl(name, &scaled_mm_v2_boxed);
  }
}

}  // namespace hostdevice
