#include "operators/dtypes.h"

#include <ATen/AccumulateType.h>
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/result_type.h>

#include "operators/rows.h"

namespace hostdevice {
namespace {

using at::ScalarType;
using at::Tensor;
using torch::jit::Stack;

constexpr Types kHalfOrMore = kHalves | kFloats;
constexpr Types kByte = types_of(ScalarType::Byte);
constexpr Types kWideUnsigned = types_of(ScalarType::UInt16, ScalarType::UInt32, ScalarType::UInt64);
constexpr Types kNumbers = kIntegers | kHalfOrMore | kComplex;
// Integers that cuDNN has a name for, and no code.
constexpr Types kNamedByCudnn = types_of(ScalarType::Int, ScalarType::Char, ScalarType::Byte);

[[noreturn]] void refuse_as(const char* kernel, ScalarType type) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, '"', kernel, "\" not implemented for '", c10::toString(type), "'");
}
[[noreturn]] void refuse_name(ScalarType type) {
  TORCH_CHECK(false, "getCudnnDataTypeFromScalarType() not supported for ", c10::toString(type));
}

// ---- convolutions: cuDNN's, unless it is turned off or cannot -----------------------------------------------------

struct Geometry {
  c10::List<int64_t> stride, dilation, output_padding;
  bool transposed;
};

void refuse_convolution(ScalarType type, const Geometry& given) {
  bool big = false, dilated = false;
  for (size_t i = 0; i < given.output_padding.size(); i++)
    big = big || given.output_padding.get(i) >= given.stride.get(i < given.stride.size() ? i : 0);
  for (size_t i = 0; i < given.dilation.size(); i++) dilated = dilated || given.dilation.get(i) != 1;
  if (at::globalContext().userEnabledCuDNN() && !(given.transposed && big)) {
    TORCH_CHECK(!holds(kNamedByCudnn, type), "GET was unable to find an engine to execute this computation");
    refuse_name(type);
  }
  const bool volume = given.stride.size() == 3;
  if (given.transposed) refuse_as(volume ? "slow_conv_transpose3d_out_cuda" : "slow_conv_transpose2d_out_cuda", type);
  refuse_as(dilated || volume ? "slow_conv_dilated<>" : "slow_conv2d_cuda", type);
}

// Their arguments after input, weight and bias: stride, padding, dilation, transposed, output_padding.
template <size_t kFirst>
void refuse_convolution_of(ScalarType type, const Stack& stack, size_t base) {
  const auto at = [&](size_t i) -> const c10::IValue& { return stack[base + kFirst + i]; };
  refuse_convolution(type, {at(0).toIntList(), at(2).toIntList(), at(4).toIntList(), at(3).toBool()});
}

// ---- batch normalisation ------------------------------------------------------------------------------------------

// PyTorch gives cuDNN what has weights and more than two dimensions, unless it is called by the name of its own.
template <size_t kTraining, bool kCudnn>
void refuse_batch_norm(ScalarType type, const Stack& stack, size_t base) {
  const auto given = [&](size_t i) { return stack[base + i].isTensor() && stack[base + i].toTensor().defined(); };
  const bool training = kTraining == 0 || stack[base + kTraining].toBool();
  if (kCudnn && at::globalContext().userEnabledCuDNN() && given(1) && given(2) && stack[base].toTensor().dim() >= 3 &&
      (given(3) == given(4)) && (given(3) || training)) {
    TORCH_CHECK(!holds(kNamedByCudnn, type), "TensorDescriptor does not support ", c10::toString(type));
    refuse_name(type);
  }
  if (type == ScalarType::ComplexHalf) at::toAccumulateType(type, c10::DeviceType::CUDA);  // raises
  refuse_as(training ? "batch_norm_stats_cuda" : "batch_norm_invert_std_cuda", type);
}

// It asks first in which type to sum.
void refuse_layer_norm(ScalarType type, const Stack&, size_t) {
  if (type == ScalarType::ComplexHalf) at::toAccumulateType(type, c10::DeviceType::CUDA);
  refuse_as("LayerNormKernelImpl", type);
}

// ---- others that depend on more than the type -----------------------------------------------------------------------

// Sums are of any type. What is left out at first is filled in by another kernel.
void refuse_scatter_reduce(ScalarType type, const Stack& stack, size_t base) {
  const auto &reduce = stack[base + 4], &includes = stack[base + 5];
  if (reduce.isString() && reduce.toStringRef() == "sum") return;
  const bool fills = includes.isBool() && !includes.toBool() && !holds(kNumbers | kBool, type);
  refuse_as(fills ? "scatter_reduce_exclude_input_init" : "cuda_scatter_gather_base_kernel_func", type);
}
// What is only put somewhere is of any type, unless it is one number; products are of numbers that are not complex.
void refuse_scatter(ScalarType type, const Stack& stack, size_t base) {
  const bool is_number = !stack[base + 3].isTensor();
  const bool reduces = stack.size() > base + 4 && stack[base + 4].isString();
  if (reduces && stack[base + 4].toStringRef() == "multiply")
    refuse_as(
        is_number ? "cuda_scatter_fill_base_kernel_reduce_multiply" : "cuda_scatter_gather_base_kernel_func", type);
  if (holds(kNumbers | kBool, type)) return;
  if (is_number) refuse_as("cuda_scatter_fill_base_kernel_func", type);
  if (reduces) refuse_as("cuda_scatter_gather_base_kernel_func", type);
}
// What it does not know how to put together, the operator says itself.
void refuse_index_reduce(ScalarType type, const Stack& stack, size_t base) {
  const std::string& reduce = stack[base + 4].toStringRef();
  for (const char* known : {"prod", "mean", "amax", "amin"})
    if (reduce == known) refuse_as("index_reduce", type);
}
void refuse_vdot(ScalarType type, const Stack&, size_t) {
  refuse_as(at::isComplexType(type) ? "vdot" : "dot", type);
}
// The one of all is found by sorting.
void refuse_median(ScalarType type, const Stack& stack, size_t base) {
  if (stack.size() - base > 1) refuse_as("median_out_impl", type);
  TORCH_CHECK(!at::isComplexType(type), "Sort does not support complex dtypes on CPU");
}
// cuSOLVER has one square matrix.
void refuse_lu(ScalarType type, const Stack& stack, size_t base) {
  const at::Tensor& given = stack[base].toTensor();
  if (given.dim() < 2) return;
  const int64_t rows = given.size(-2), columns = given.size(-1);
  const bool one = rows == columns && given.numel() == rows * columns;
  refuse_as(one ? "lu_factor_cusolver" : "lu_factor_magma_batched", type);
}

// By the type that both become; a number is whole, or it is not.
void refuse_mul(ScalarType, const Stack& stack, size_t base) {
  const Tensor& self = stack[base].toTensor();
  const c10::IValue& other = stack[base + 1];
  const auto type =
      other.isTensor() ? at::result_type(self, other.toTensor()) : at::result_type(self, other.toScalar());
  if (!holds(kNumbers | kBool | kComplexHalf, type)) refuse_as("mul_cuda", type);
}
void refuse_igamma(ScalarType, const Stack& stack, size_t base) {
  const auto type = at::result_type(stack[base].toTensor(), stack[base + 1].toTensor());
  if (holds(kHalves, type)) refuse_as("igamma_cuda", type);
}
void refuse_igammac(ScalarType, const Stack& stack, size_t base) {
  const auto type = at::result_type(stack[base].toTensor(), stack[base + 1].toTensor());
  if (holds(kHalves, type)) refuse_as("igammac_cuda", type);
}

void refuse_histc(ScalarType type, const Stack&, size_t) {
  TORCH_CHECK(type != ScalarType::Half, "HalfTensor is not supported");
  refuse_as("histc", type);
}

// ---- the table ----------------------------------------------------------------------------------------------------

constexpr Types kMultiplied = kHalfOrMore | kComplex;

constexpr TakenRow kTakenRows[] = {
    {"mm", kMultiplied, "addmm_cuda"},
    {"addmm", kMultiplied, "addmm_cuda"},
    {"_addmm_activation", kMultiplied, "addmm_cuda"},
    {"addbmm", kMultiplied, "addmm_cuda"},
    {"bmm", kMultiplied, "baddbmm_cuda"},
    {"baddbmm", kMultiplied, "baddbmm_cuda"},
    {"mv", kMultiplied, "addmv_impl_cuda"},
    {"addmv", kMultiplied, "addmv_impl_cuda"},
    {"dot", kMultiplied, "dot"},
    {"vdot", kMultiplied, nullptr, refuse_vdot},
    {"linalg_lu", kFloats | kComplex, nullptr, refuse_lu},
    {"linalg_lu_factor_ex", kFloats | kComplex, nullptr, refuse_lu},

    {"convolution", kMultiplied | kComplexHalf, nullptr, refuse_convolution_of<3>},
    {"_convolution", kMultiplied | kComplexHalf, nullptr, refuse_convolution_of<3>},
    {"convolution_backward", kMultiplied | kComplexHalf, nullptr, refuse_convolution_of<4>},

    {"native_batch_norm", kHalfOrMore, nullptr, refuse_batch_norm<5, true>},
    {"_batch_norm_with_update", kHalfOrMore, nullptr, refuse_batch_norm<0, true>},
    {"_native_batch_norm_legit", kHalfOrMore, nullptr, refuse_batch_norm<5, false>},
    {"native_layer_norm", kHalfOrMore, nullptr, refuse_layer_norm},

    {"max_pool2d_with_indices", kHalfOrMore, "max_pool2d_with_indices_out_cuda_frame"},
    {"max_pool3d_with_indices", kHalfOrMore, "max_pool3d_with_indices_out_frame"},
    {"avg_pool2d", kHalfOrMore, "avg_pool2d_out_cuda_frame"},
    {"avg_pool3d", kHalfOrMore, "avg_pool3d_out_cuda"},

    {"upsample_linear1d", kHalfOrMore, "upsample_linear1d_out_frame"},
    {"upsample_bilinear2d", kHalfOrMore, "upsample_bilinear2d_out_frame"},
    {"_upsample_bilinear2d_aa", kHalfOrMore, "upsample_bilinear2d_out_frame"},
    {"upsample_bicubic2d", kHalfOrMore, "upsample_bicubic2d_out_frame"},
    {"_upsample_bicubic2d_aa", kHalfOrMore, "upsample_bicubic2d_out_frame"},
    {"upsample_trilinear3d", kHalfOrMore, "upsample_trilinear3d_out_frame"},
    {"upsample_nearest1d", kHalfOrMore | kByte, "upsample_nearest1d_out_frame"},
    {"_upsample_nearest_exact1d", kHalfOrMore | kByte, "upsample_nearest1d_out_frame"},
    {"upsample_nearest2d", kHalfOrMore | kByte, "upsample_nearest2d_out_frame"},
    {"_upsample_nearest_exact2d", kHalfOrMore | kByte, "upsample_nearest2d_out_frame"},
    {"upsample_nearest3d", kHalfOrMore | kByte, "upsample_nearest3d_out_frame"},
    {"_upsample_nearest_exact3d", kHalfOrMore | kByte, "upsample_nearest3d_out_frame"},

    {"native_dropout_backward", kHalfOrMore, "masked_scale"},
    {"igamma", kFloats | kIntegers | kBool, nullptr, refuse_igamma},
    {"igammac", kFloats | kIntegers | kBool, nullptr, refuse_igammac},
    {"angle", (kNumbers & ~kHalves) | kBool | kComplexHalf, "angle_cuda"},
    {"abs", kNumbers | kBool | kComplexHalf, "abs_cuda"},
    {"bitwise_and", kIntegers | kBool, "bitwise_and_cuda"},
    {"bitwise_or", kIntegers | kBool, "bitwise_or_cuda"},
    {"bitwise_xor", kIntegers | kBool, "bitwise_xor_cuda"},
    {"index", ~kWideUnsigned, "index_cuda"},
    {"histc", kFloats | kIntegers, nullptr, refuse_histc},
    {"addcmul", kNumbers, "addcmul_cuda"},
    {"roll", kNumbers | kBool | kComplexHalf, "roll_cuda"},
    {"mul", kNumbers | kBool | kComplexHalf, nullptr, refuse_mul},
    {"var", kNumbers | kBool | kComplexHalf, "std_cuda"},
    {"std", kNumbers | kBool | kComplexHalf, "std_cuda"},
    {"median", kIntegers | kHalfOrMore, nullptr, refuse_median},
    {"nanmedian", kIntegers | kHalfOrMore, nullptr, refuse_median},
    {"index_reduce", kIntegers | kHalfOrMore, nullptr, refuse_index_reduce},
    {"scatter", kIntegers | kHalfOrMore, nullptr, refuse_scatter},
    {"scatter_reduce", kIntegers | kHalfOrMore, nullptr, refuse_scatter_reduce},
};

}  // namespace

const TakenRow* find_taken_row(std::string_view name) {
  static const auto* rows = new RowsByName<TakenRow>(by_name(kTakenRows));
  return find_row(*rows, name);
}

void check_taken(const TakenRow& row, const Stack& stack, size_t base) {
  if (!stack[base].isTensor() || !stack[base].toTensor().defined()) return;
  const auto type = stack[base].toTensor().scalar_type();
  if (holds(row.taken, type)) return;
  // Of nothing, nothing is computed.
  for (size_t i = base; i < stack.size(); i++)
    if (stack[i].isTensor() && stack[i].toTensor().defined() && stack[i].toTensor().numel() == 0) return;
  if (row.refuse)
    row.refuse(type, stack, base);
  else
    refuse_as(row.kernel, type);
}

}  // namespace hostdevice
