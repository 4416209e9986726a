#include "operators/mixed_types.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

#include "operators/rows.h"

namespace hostdevice {
namespace {

using at::ScalarType;
using at::Tensor;
using torch::jit::Stack;

bool has(const Stack& stack, size_t at) {
  return at < stack.size() && stack[at].isTensor() && stack[at].toTensor().defined();
}

// ---- what CUDA says -----------------------------------------------------------------------------------------------

// As a pointer to elements is asked for: one argument decides, others have to be alike.
template <size_t kFirst, size_t... kOthers>
void expect(Stack& stack, size_t base) {
  const auto type = stack[base + kFirst].toTensor().scalar_type();
  for (const size_t other : {kOthers...}) {
    if (!has(stack, base + other)) continue;
    const auto found = stack[base + other].toTensor().scalar_type();
    TORCH_CHECK(found == type, "expected scalar type ", c10::toString(type), " but found ", c10::toString(found));
  }
}

// As PyTorch goes through elements of all arguments at once.
void iterate(Stack& stack, size_t base) {
  const auto type = stack[base].toTensor().scalar_type();
  for (size_t i = base + 1; i < stack.size(); i++) {
    if (!has(stack, i)) continue;
    const auto found = stack[i].toTensor().scalar_type();
    TORCH_CHECK(found == type, "Found dtype ", c10::toString(found), " but expected ", c10::toString(type));
  }
}

void multiply(Stack& stack, size_t base) {
  const Tensor &a = stack[base].toTensor(), &b = stack[base + 1].toTensor();
  TORCH_CHECK(
      a.dtype() == b.dtype(), "expected mat1 and mat2 to have the same dtype, but got: ", a.dtype(), " != ", b.dtype());
}

// What is added to has to be as the last factor, then the first factor.
void add_to_matrices(Stack& stack, size_t base) {
  const auto expected = stack[base + 2].toTensor().scalar_type();
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const auto found = stack[base + i].toTensor().scalar_type();
    TORCH_CHECK(
        found == expected, i ? "mat1" : "self", " and mat2 must have the same dtype, but got ", c10::toString(found),
        " and ", c10::toString(expected));
  }
}
void add_to_batches(Stack& stack, size_t base) {
  const Tensor &self = stack[base].toTensor(), &a = stack[base + 1].toTensor(), &b = stack[base + 2].toTensor();
  TORCH_CHECK(
      self.dtype() == a.dtype(), "Input dtypes must be the same, got: input ", self.dtype(), ", batch1: ", a.dtype(),
      ", batch2: ", b.dtype());
}

// What is added to may be of any type.
void add_to_product(Stack& stack, size_t base) {
  expect<1, 2>(stack, base);
  const auto type = stack[base + 1].toTensor().scalar_type();
  if (stack[base].toTensor().scalar_type() != type) stack[base] = stack[base].toTensor().to(type);
}

void convolve(Stack& stack, size_t base) {
  const Tensor &input = stack[base].toTensor(), &weight = stack[base + 1].toTensor();
  TORCH_CHECK(
      input.scalar_type() == weight.scalar_type(), "Input type (", input.toString(), ") and weight type (",
      weight.toString(), ") should be the same");
}

// Half precision with weights of float32 is what the CPU's kernel has and CUDA's has not. All else is refused before.
void normalize_groups(Stack& stack, size_t base) {
  const bool half = holds(kHalves, stack[base].toTensor().scalar_type());
  if (half && has(stack, base + 1) && stack[base + 1].toTensor().scalar_type() == at::kFloat)
    expect<0, 1, 2>(stack, base);
}

// Of half precision the weights may be float32's.
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

void scatter(Stack& stack, size_t base) {
  const auto type = stack[base].toTensor().scalar_type(), found = stack[base + 2].toTensor().scalar_type();
  TORCH_CHECK(
      type == found, "masked_scatter_: expected self and source to have same dtypes but got ", c10::toString(type),
      " and ", c10::toString(found));
}

constexpr MixedRow kMixedRows[] = {
    {"mm", multiply},
    {"addmm", add_to_matrices},
    {"addbmm", add_to_matrices},
    {"baddbmm", add_to_batches},
    {"mv", expect<0, 1>},
    {"addmv", add_to_product},
    {"convolution", convolve},
    {"_convolution", convolve},
    {"native_layer_norm", expect<0, 2, 3>},
    {"native_group_norm", normalize_groups},
    {"native_batch_norm", normalize<5>},
    {"_native_batch_norm_legit", normalize<5>},
    {"_batch_norm_with_update", normalize<0>},
    {"masked_scatter", scatter},
    {"multi_margin_loss", expect<0, 4>},
    {"_embedding_bag", expect<0, 6>},
    {"_embedding_bag_forward_only", expect<0, 6>},
    {"linalg_cross", iterate},
};

}  // namespace

const MixedRow* find_mixed_row(std::string_view name) {
  static const auto* rows = new RowsByName<MixedRow>(by_name(kMixedRows));
  return find_row(*rows, name);
}

bool are_mixed(const Stack& stack, size_t base) {
  Types seen = 0;
  for (size_t i = base; i < stack.size(); i++) {
    if (!has(stack, i) || stack[i].toTensor().dim() == 0) continue;
    const auto type = stack[i].toTensor().scalar_type();
    if (holds(kFractions, type)) seen |= types_of(c10::toRealValueType(type));
  }
  return (seen & (seen - 1)) != 0;
}

}  // namespace hostdevice
