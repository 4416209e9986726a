// Rules that rows of contract/operators.toml name, for behavior that depends on more than an operator's name.
//
// A rule takes a stack and the index of the first argument. Numbers in brackets are positions of arguments.
#pragma once

#include <ATen/AccumulateType.h>
#include <ATen/Context.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <ATen/ops/result_type.h>

#include <string>
#include <utility>
#include <vector>

#include "operators/boxed.h"
#include "operators/types.h"
#include "runtime/device.h"

namespace hostdevice::rules {

using at::ScalarType;
using at::Tensor;
using torch::jit::Stack;
using Arguments = std::vector<c10::IValue>;

inline bool has(const Stack& stack, size_t at) {
  return at < stack.size() && stack[at].isTensor() && stack[at].toTensor().defined();
}

// ---- nondeterministic, waits: whether a call is --------------------------------------------------------------------

template <size_t kPosition>
bool is_floating(const Stack& stack, size_t base) {
  return c10::isFloatingType(stack[base + kPosition].toTensor().scalar_type());
}
template <size_t kPosition>
bool is_given(const Stack& stack, size_t base) {
  const auto& v = stack[base + kPosition];
  return v.isTensor() && v.toTensor().defined();
}
template <size_t kPosition>
bool reduces(const Stack& stack, size_t base) {
  return stack[base + kPosition].toInt() != at::Reduction::None;
}
template <size_t kPosition>
bool takes_largest(const Stack& stack, size_t base) {
  constexpr int64_t kModeMax = 2;  // of torch.nn.functional.embedding_bag
  return stack[base + kPosition].toInt() == kModeMax;
}
// scatter(self, dim, index, src, *, reduce) and scatter_reduce(self, dim, index, src, reduce): sums take another path.
inline bool multiplies(const Stack& stack, size_t base) {
  const auto& how = stack[base + 4].toStringRef();
  return how == "prod" || how == "multiply";
}

// put(self, index, source, accumulate): for other calls the CPU kernel raises itself.
inline bool accumulates(const Stack& stack, size_t base) {
  return stack[base + 3].toBool();
}

inline bool is_on_cpu(const c10::IValue& v) {
  return v.isTensor() && v.toTensor().defined() && v.toTensor().device().is_cpu();
}
template <size_t kPosition>
bool is_none(const Stack& stack, size_t base) {
  return stack[base + kPosition].isNone();
}
// equal(self, other): with the same tensor or different shapes, no elements are read.
inline bool compares(const Stack& stack, size_t base) {
  const auto &a = stack[base].toTensor(), &b = stack[base + 1].toTensor();
  return a.sizes() == b.sizes() && !a.is_same(b);
}
// histc(self, bins, min, max): without a range, CUDA computes the range of the elements.
inline bool looks_for_range(const Stack& stack, size_t base) {
  return stack[base + 2].toScalar().toDouble() == stack[base + 3].toScalar().toDouble();
}
// masked_fill(self, mask, value), index_fill(self, dim, index, value): the kernel takes the value as a scalar, so one
// on the device is copied to the host.
template <size_t kPosition>
bool fills_from_device(const Stack& stack, size_t base) {
  return !is_on_cpu(stack[base + kPosition]);
}
// where(condition, self, other)
inline bool chooses_from_host(const Stack& stack, size_t base) {
  return is_on_cpu(stack[base + 1]) || is_on_cpu(stack[base + 2]);
}
// index(self, indices) and index_put(self, indices, values, ...): CUDA waits until it has counted the elements that a
// mask selects, and until it has copied indices from the host. A single value for a mask's elements is not copied, nor
// are they counted: each element decides for itself, unless values are accumulated.
inline bool waits_for_indices(const Stack& stack, size_t base) {
  const bool number = stack.size() - base > 2 && is_on_cpu(stack[base + 2]) && stack[base + 2].toTensor().numel() == 1;
  bool counts = false, copies = false, masks = true;
  each_tensor(stack[base + 1], Kind::OptionalTensorList, [&](const at::Tensor& t) {
    const auto type = t.scalar_type();
    const bool mask = type == c10::kBool || type == c10::kByte;
    masks = masks && mask;
    counts = counts || (mask && !t.device().is_cpu());
    copies = copies || (!mask && t.device().is_cpu());
  });
  const bool adds = stack.size() - base > 3 && stack[base + 3].toBool();
  if (number && masks && !adds) return false;
  return counts || copies || number;
}

// ---- compare: devices that an operator compares before all other checks ---------------------------------------------

// masked_fill(self, mask, value)
inline void compare_mask(const Stack& stack, size_t base) {
  const auto self = stack[base].toTensor().device(), mask = stack[base + 1].toTensor().device();
  TORCH_CHECK(
      self == mask, "expected self and mask to be on the same device, but got mask on ", mask, " and self on ", self);
}

// convolution(input, weight, bias, ...), slow_conv_dilated2d(input, weight, kernel_size, bias, ...)
template <size_t kBias>
void compare_input(const Stack& stack, size_t base) {
  if (!has(stack, base) || stack[base].toTensor().device().type() != kType) return;
  const Tensor& input = stack[base].toTensor();
  for (const size_t i : {size_t{1}, kBias}) {
    if (!has(stack, base + i)) continue;
    const Tensor& other = stack[base + i].toTensor();
    TORCH_CHECK(
        input.device() == other.device(), "Input type (", input.toString(), ") and ", i == 1 ? "weight" : "bias",
        " type (", other.toString(), ") should be the same");
  }
}

// ---- asserts: whether CUDA uses this kernel -----------------------------------------------------------------------

template <size_t kPosition>
bool is_number(const Arguments& given) {
  return given.size() > kPosition && !given[kPosition].isTensor();
}
template <size_t kPosition>
bool is_true(const Arguments& given) {
  return given.size() > kPosition && given[kPosition].isBool() && given[kPosition].toBool();
}
// Whether a loss is not reduced (reduction is 0).
template <size_t kPosition>
bool is_each(const Arguments& given) {
  return given.size() > kPosition && given[kPosition].isInt() && given[kPosition].toInt() == 0;
}

// ---- refuse: CUDA's messages for types that its kernel does not take -----------------------------------------------

inline constexpr Types kHalfOrMore = kHalves | kFloats;
inline constexpr Types kNumbers = kIntegers | kHalfOrMore | kComplex;
// Integer types that cuDNN names but does not implement.
inline constexpr Types kNamedByCudnn = types_of(ScalarType::Int, ScalarType::Char, ScalarType::Byte);

[[noreturn]] inline void refuse_as(const char* kernel, ScalarType type) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, '"', kernel, "\" not implemented for '", c10::toString(type), "'");
}
[[noreturn]] inline void refuse_name(ScalarType type) {
  TORCH_CHECK(false, "getCudnnDataTypeFromScalarType() not supported for ", c10::toString(type));
}

// ---- convolutions: cuDNN's, unless it is disabled or does not support them ----------------------------------------

struct Geometry {
  c10::List<int64_t> stride, dilation, output_padding;
  bool transposed;
};

inline void refuse_convolution(ScalarType type, const Geometry& given) {
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

// Arguments from kFirst on: stride, padding, dilation, transposed, output_padding.
template <size_t kFirst>
void refuse_convolution_of(ScalarType type, const Stack& stack, size_t base) {
  const auto at = [&](size_t i) -> const c10::IValue& { return stack[base + kFirst + i]; };
  refuse_convolution(type, {at(0).toIntList(), at(2).toIntList(), at(4).toIntList(), at(3).toBool()});
}

// ---- batch normalization ------------------------------------------------------------------------------------------

// PyTorch uses cuDNN for inputs with weights and more than two dimensions, unless its own kernel is called by name.
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

// CUDA first chooses the type in which to accumulate.
inline void refuse_layer_norm(ScalarType type, const Stack&, size_t) {
  if (type == ScalarType::ComplexHalf) at::toAccumulateType(type, c10::DeviceType::CUDA);
  refuse_as("LayerNormKernelImpl", type);
}

// ---- refusals that depend on more than the type ---------------------------------------------------------------------

// Sums take every type. Without include_self, another kernel initializes the result.
inline void refuse_scatter_reduce(ScalarType type, const Stack& stack, size_t base) {
  const auto &reduce = stack[base + 4], &includes = stack[base + 5];
  if (reduce.isString() && reduce.toStringRef() == "sum") return;
  const bool fills = includes.isBool() && !includes.toBool() && !holds(kNumbers | kBool, type);
  refuse_as(fills ? "scatter_reduce_exclude_input_init" : "cuda_scatter_gather_base_kernel_func", type);
}
// Without a reduction, a tensor source has any type and a scalar source does not; products refuse complex types.
inline void refuse_scatter(ScalarType type, const Stack& stack, size_t base) {
  const bool is_number = !stack[base + 3].isTensor();
  const bool reduces = stack.size() > base + 4 && stack[base + 4].isString();
  if (reduces && stack[base + 4].toStringRef() == "multiply")
    refuse_as(
        is_number ? "cuda_scatter_fill_base_kernel_reduce_multiply" : "cuda_scatter_gather_base_kernel_func", type);
  if (holds(kNumbers | kBool, type)) return;
  if (is_number) refuse_as("cuda_scatter_fill_base_kernel_func", type);
  if (reduces) refuse_as("cuda_scatter_gather_base_kernel_func", type);
}
// The operator itself refuses unknown reductions.
inline void refuse_index_reduce(ScalarType type, const Stack& stack, size_t base) {
  const std::string& reduce = stack[base + 4].toStringRef();
  for (const char* known : {"prod", "mean", "amax", "amin"})
    if (reduce == known) refuse_as("index_reduce", type);
}
inline void refuse_vdot(ScalarType type, const Stack&, size_t) {
  refuse_as(at::isComplexType(type) ? "vdot" : "dot", type);
}
// The median of all elements uses sort.
inline void refuse_median(ScalarType type, const Stack& stack, size_t base) {
  if (stack.size() - base > 1) refuse_as("median_out_impl", type);
  TORCH_CHECK(!at::isComplexType(type), "Sort does not support complex dtypes on CPU");
}
// cuSOLVER factors a single square matrix, MAGMA others.
inline void refuse_lu(ScalarType type, const Stack& stack, size_t base) {
  const at::Tensor& given = stack[base].toTensor();
  if (given.dim() < 2) return;
  const int64_t rows = given.size(-2), columns = given.size(-1);
  const bool one = rows == columns && given.numel() == rows * columns;
  refuse_as(one ? "lu_factor_cusolver" : "lu_factor_magma_batched", type);
}

// Use the promoted type of both; a scalar counts only as an integer or floating-point number.
inline void refuse_mul(ScalarType, const Stack& stack, size_t base) {
  const Tensor& self = stack[base].toTensor();
  const c10::IValue& other = stack[base + 1];
  const auto type =
      other.isTensor() ? at::result_type(self, other.toTensor()) : at::result_type(self, other.toScalar());
  if (!holds(kNumbers | kBool | kComplexHalf, type)) refuse_as("mul_cuda", type);
}
inline void refuse_igamma(ScalarType, const Stack& stack, size_t base) {
  const auto type = at::result_type(stack[base].toTensor(), stack[base + 1].toTensor());
  if (holds(kHalves, type)) refuse_as("igamma_cuda", type);
}
inline void refuse_igammac(ScalarType, const Stack& stack, size_t base) {
  const auto type = at::result_type(stack[base].toTensor(), stack[base + 1].toTensor());
  if (holds(kHalves, type)) refuse_as("igammac_cuda", type);
}

inline void refuse_histc(ScalarType type, const Stack&, size_t) {
  TORCH_CHECK(type != ScalarType::Half, "HalfTensor is not supported");
  refuse_as("histc", type);
}

// ---- mixed_types: CUDA's checks of arguments of several types -------------------------------------------------------

// Check as CUDA does when it gets data pointers: one argument decides the type, others must have it.
template <size_t kFirst, size_t... kOthers>
void expect(Stack& stack, size_t base) {
  const auto type = stack[base + kFirst].toTensor().scalar_type();
  for (const size_t other : {kOthers...}) {
    if (!has(stack, base + other)) continue;
    const auto found = stack[base + other].toTensor().scalar_type();
    TORCH_CHECK(found == type, "expected scalar type ", c10::toString(type), " but found ", c10::toString(found));
  }
}

// Check as TensorIterator does for all arguments at once.
inline void iterate(Stack& stack, size_t base) {
  const auto type = stack[base].toTensor().scalar_type();
  for (size_t i = base + 1; i < stack.size(); i++) {
    if (!has(stack, i)) continue;
    const auto found = stack[i].toTensor().scalar_type();
    TORCH_CHECK(found == type, "Found dtype ", c10::toString(found), " but expected ", c10::toString(type));
  }
}

inline void multiply(Stack& stack, size_t base) {
  const Tensor &a = stack[base].toTensor(), &b = stack[base + 1].toTensor();
  TORCH_CHECK(
      a.dtype() == b.dtype(), "expected mat1 and mat2 to have the same dtype, but got: ", a.dtype(), " != ", b.dtype());
}

// `self` must have the type of mat2, and then mat1 must.
inline void add_to_matrices(Stack& stack, size_t base) {
  const auto expected = stack[base + 2].toTensor().scalar_type();
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const auto found = stack[base + i].toTensor().scalar_type();
    TORCH_CHECK(
        found == expected, i ? "mat1" : "self", " and mat2 must have the same dtype, but got ", c10::toString(found),
        " and ", c10::toString(expected));
  }
}
inline void add_to_batches(Stack& stack, size_t base) {
  const Tensor &self = stack[base].toTensor(), &a = stack[base + 1].toTensor(), &b = stack[base + 2].toTensor();
  TORCH_CHECK(
      self.dtype() == a.dtype(), "Input dtypes must be the same, got: input ", self.dtype(), ", batch1: ", a.dtype(),
      ", batch2: ", b.dtype());
}

// The tensor that is added to may have any type.
inline void add_to_product(Stack& stack, size_t base) {
  expect<1, 2>(stack, base);
  const auto type = stack[base + 1].toTensor().scalar_type();
  if (stack[base].toTensor().scalar_type() != type) stack[base] = stack[base].toTensor().to(type);
}

inline void convolve(Stack& stack, size_t base) {
  const Tensor &input = stack[base].toTensor(), &weight = stack[base + 1].toTensor();
  TORCH_CHECK(
      input.scalar_type() == weight.scalar_type(), "Input type (", input.toString(), ") and weight type (",
      weight.toString(), ") should be the same");
}

// The CPU kernel takes half precision with float32 weights, CUDA's does not. Other mixtures are refused earlier.
inline void normalize_groups(Stack& stack, size_t base) {
  const bool half = holds(kHalves, stack[base].toTensor().scalar_type());
  if (half && has(stack, base + 1) && stack[base + 1].toTensor().scalar_type() == at::kFloat)
    expect<0, 1, 2>(stack, base);
}

// For half precision the weights may be float32.
template <size_t kTraining>
void normalize(Stack& stack, size_t base) {
  if (!has(stack, base + 1)) return;
  const Tensor &input = stack[base].toTensor(), &weight = stack[base + 1].toTensor();
  const auto type = input.scalar_type(), found = weight.scalar_type();
  const bool half = holds(kHalves, type), training = kTraining == 0 || stack[base + kTraining].toBool();
  if (found == type || (half && found == at::kFloat)) return;
  const bool kept = has(stack, base + 3);
  const bool cudnn = at::globalContext().userEnabledCuDNN() && input.dim() >= 3 && (kept || training) && !half;
  TORCH_CHECK(
      !cudnn,
      "Expected tensor for argument #1 'input' to have the same type as tensor for argument #2 'weight'; but type ",
      input.toString(), " does not equal ", weight.toString(), " (while checking arguments for cudnn_batch_norm)");
  TORCH_CHECK(
      false, "Expected weight to have type ", c10::toString(half ? ScalarType::Float : type), " but got ",
      c10::toString(found));
}

// Kernels that reduce one channel after the other take weights and statistics in one type: the input's, or that in
// which it is accumulated, which the first of them chooses.
inline void normalize_backward(Stack& stack, size_t base) {
  const Tensor& input = stack[base + 1].toTensor();
  const auto mask = stack[base + 9].toBoolList();
  const bool last = input.is_contiguous(at::MemoryFormat::ChannelsLast) ||
      input.is_contiguous(at::MemoryFormat::ChannelsLast3d) || (input.is_contiguous() && input.stride(1) == 1);
  if (last || !mask.get(0) || !(stack[base + 7].toBool() || mask.get(1) || mask.get(2))) return;
  const auto type = input.scalar_type();
  auto expected = ScalarType::Undefined;
  constexpr std::pair<size_t, const char*> kNamed[] = {{2, "weight"}, {3, "running_mean"}, {4, "running_var"}};
  for (const auto& [place, name] : kNamed) {
    if (!has(stack, base + place)) continue;
    const auto found = stack[base + place].toTensor().scalar_type();
    if (expected == ScalarType::Undefined)
      expected = found == type ? type : at::toAccumulateType(type, c10::DeviceType::CUDA);
    TORCH_CHECK(
        found == expected, "Expected ", name, " to have type ", c10::toString(expected), " but got ",
        c10::toString(found));
  }
}

inline void scatter(Stack& stack, size_t base) {
  const auto type = stack[base].toTensor().scalar_type(), found = stack[base + 2].toTensor().scalar_type();
  TORCH_CHECK(
      type == found, "masked_scatter_: expected self and source to have same dtypes but got ", c10::toString(type),
      " and ", c10::toString(found));
}

}  // namespace hostdevice::rules
