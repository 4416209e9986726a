// Nested tensors: their layout, and arithmetic with a tensor that is not nested, for which CUDA has kernels that work
// by rows.
#include <ATen/NestedTensorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_nested_tensor_from_tensor_list.h>
#include <ATen/ops/add.h>
#include <ATen/ops/mul.h>

#include <string>
#include <vector>

#include "operators/alias.h"
#include "operators/boxed.h"
#include "operators/composites.h"

namespace hostdevice {
namespace {

using at::Tensor;

constexpr const char* kOneNested =
    "Expected both self and other to be nested, but got a nested self and non-nested other";

// Whether `other` has one row for each part of `self`: [B, *, D] and [B, 1, D], or [B, *] and [B, 1].
bool is_row_for_each(const Tensor& self, const Tensor& other) {
  if (self.dim() != other.dim() || self.dim() < 2 || self.dim() > 3) return false;
  const auto* nested = at::native::get_nested_tensor_impl(self);
  if (nested->size(0) != other.size(0) || other.size(1) != 1) return false;
  return self.dim() == 2 || nested->opt_size(2) == other.size(2);
}

// Whether `other` has one value per channel, for images of any size: [B, C, *, *] and [C, 1, 1].
bool is_number_for_channel(const Tensor& self, const Tensor& other) {
  return self.dim() == 4 && other.dim() == 3 &&
      at::native::get_nested_tensor_impl(self)->opt_size(1) == other.size(0) && other.size(1) == 1 &&
      other.size(2) == 1;
}

// Compute add, sub, mul or div of two tensors; the factor of the first two is a third argument, which CUDA's kernel for
// rows ignores.
void combine(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size(), base = stack->size() - count;
  const Tensor self = (*stack)[base].toTensor(), other = (*stack)[base + 1].toTensor();
  if (!self.is_nested() || other.is_nested() || other.dim() == 0)
    return run_on_cpu(op, c10::DispatchKey::NestedTensorCPU, stack);
  TORCH_CHECK(is_device_tensor(self) && is_device_tensor(other), kOneNested);
  const std::string name = op.schema().name().substr(kAten.size());
  const bool by_rows = is_row_for_each(self, other);
  TORCH_CHECK(by_rows || is_number_for_channel(self, other), kOneNested, " for op: ", name, ".");
  TORCH_CHECK(!by_rows || name == "add" || name == "mul", "Unsupported nested dense elementwise op: ", name, ".");
  TORCH_CHECK(
      !by_rows || self.scalar_type() == other.scalar_type(), "expected scalar type ", self.scalar_type(), " but found ",
      other.scalar_type());
  const std::vector<Tensor> parts = self.unbind(), rows = by_rows ? other.unbind() : std::vector<Tensor>();
  std::vector<Tensor> made;
  made.reserve(parts.size());
  for (size_t i = 0; i < parts.size(); i++) {
    if (by_rows) {
      made.push_back(name == "add" ? at::add(parts[i], rows[i]) : at::mul(parts[i], rows[i]));
      continue;
    }
    torch::jit::Stack call{parts[i], other};
    for (size_t k = 2; k < count; k++) call.push_back((*stack)[base + k]);
    op.callBoxed(&call);
    made.push_back(call.back().toTensor());
  }
  torch::jit::drop(*stack, count);
  stack->emplace_back(at::_nested_tensor_from_tensor_list(made));
}

// The host knows the layout of a nested tensor on any device.
Tensor sizes_of(const Tensor& self) {
  return at::native::get_nested_tensor_impl(self)->get_nested_sizes();
}
Tensor strides_of(const Tensor& self) {
  return at::native::get_nested_tensor_impl(self)->get_nested_strides();
}
Tensor offsets_of(const Tensor& self) {
  return at::native::get_nested_tensor_impl(self)->get_storage_offsets();
}

}  // namespace

void register_nested() {
  Registrar registrar(kNested);
  registrar.impl("_nested_tensor_size", TORCH_FN(sizes_of));
  registrar.impl("_nested_tensor_strides", TORCH_FN(strides_of));
  registrar.impl("_nested_tensor_storage_offsets", TORCH_FN(offsets_of));
  for (const char* name : {"add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor"}) registrar.impl(name, &combine);
}

}  // namespace hostdevice
