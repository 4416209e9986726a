// Other operators that only CUDA has: the gradients of dropout and RMS normalization, nansum of complex numbers, and
// queries about libraries that are missing.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/kaiser_window.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "operators/boxed.h"
#include "operators/composites.h"
#include "operators/widening.h"

namespace hostdevice {
namespace {

using at::Tensor;

Tensor masked_scale(const Tensor& self, const Tensor& mask, double scale) {
  return (self * mask).mul_(scale);
}

std::tuple<Tensor, Tensor> rms_norm_backward(
    const Tensor& grad, const Tensor& input, at::IntArrayRef shape, const Tensor& rstd, const OptTensor& weight,
    std::array<bool, 2> wanted) {
  const auto inner = static_cast<int64_t>(shape.size());
  std::vector<int64_t> normalized, others;
  for (int64_t i = 0; i < input.dim(); i++) (i < input.dim() - inner ? others : normalized).push_back(i);
  const auto wide = rstd.scalar_type();
  const Tensor x = input.to(wide) * rstd, g = grad.to(wide);
  Tensor to_input, to_weight;
  if (wanted[0]) {
    const Tensor scaled = is_defined(weight) ? g * weight->to(wide) : g;
    to_input = (rstd * (scaled - x * (scaled * x).mean(normalized, true))).to(input.scalar_type());
  }
  if (wanted[1] && is_defined(weight)) {
    const Tensor each = g * x;
    to_weight = (others.empty() ? each : each.sum(others)).to(weight->scalar_type());
  }
  return {to_input, to_weight};
}

Tensor nansum(const Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, std::optional<at::ScalarType> dtype) {
  if (self.is_complex()) return at::sum(self.masked_fill(at::isnan(self), 0), dim, keepdim, dtype);
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::nansum", "");
  torch::jit::Stack stack{self, dim, keepdim, dtype};
  run_on_cpu(op, c10::DispatchKey::CPU, &stack);
  return std::move(stack.back()).toTensor();
}

// CUDA's kernel rounds the bound to the tensor's type, and elements within it become +0.
Tensor softshrink(const Tensor& self, const at::Scalar& bound) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::softshrink", "");
  const auto type = self.scalar_type();
  const bool half = type == at::kHalf || type == at::kBFloat16;
  torch::jit::Stack stack{self, half ? at::Scalar(round_scalar(bound, type)) : bound};
  run_on_cpu(op, c10::DispatchKey::CPU, &stack);
  return std::move(stack.back()).toTensor().add_(0);
}

// A CPU scalar fills, even where elements overlap; an element on the device is copied.
void fill_from_tensor(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const Tensor value = stack->back().toTensor();
  if (!value.device().is_cpu() || value.dim() != 0) return run_on_cpu(op, c10::DispatchKey::CPU, stack);
  stack->pop_back();
  stack->back().toTensor().fill_(value.item());
}

// The CPU kernel reads the first row, even if there is none.
Tensor pdist_backward(const Tensor& grad, const Tensor& self, double p, const Tensor& distances) {
  if (self.numel() == 0) return at::zeros_like(self);
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_pdist_backward", "");
  torch::jit::Stack stack{grad, self, p, distances};
  run_on_cpu(op, c10::DispatchKey::CPU, &stack);
  return std::move(stack.back()).toTensor();
}

// CUDA takes scalars for lists of tensors from the CPU, where the call is made.
void scale_lists(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const Tensor& scalars = stack->back().toTensor();
  TORCH_CHECK(scalars.device().is_cpu(), "Expected scalars to be on CPU, got ", scalars.device(), " instead.");
  run_on_cpu(op, c10::DispatchKey::CPU, stack);
}

// The CPU kernel uses a dispatch stub that has no entry for this device.
Tensor kaiser_window_beta(
    int64_t length, bool periodic, double beta, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
    std::optional<at::Device> device, std::optional<bool> pin) {
  const Tensor made = at::kaiser_window(length, periodic, beta, dtype, layout, at::kCPU, pin);
  return made.to(device.value_or(at::Device(at::kCUDA)));
}
Tensor kaiser_window_periodic(
    int64_t length, bool periodic, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
    std::optional<at::Device> device, std::optional<bool> pin) {
  return kaiser_window_beta(length, periodic, 12.0, dtype, layout, device, pin);
}
Tensor kaiser_window(
    int64_t length, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
    std::optional<at::Device> device, std::optional<bool> pin) {
  return kaiser_window_periodic(length, true, dtype, layout, device, pin);
}

// CUDA stores indices in column-major order, however few there are.
void store_by_columns(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  run_on_cpu(op, c10::DispatchKey::CPU, stack);
  const Tensor& made = stack->back().toTensor();
  const std::array<int64_t, 2> wanted = {1, std::max<int64_t>(made.size(0), 1)};
  if (!op.schema().overload_name().empty() || made.strides() == at::IntArrayRef(wanted)) return;
  stack->back() = at::empty_strided(made.sizes(), wanted, made.options()).copy_(made);
}

bool has_operator(const char* name) {
  return c10::Dispatcher::singleton().findOp({name, ""}).has_value();
}

// There is neither cuDNN nor MIOpen.
bool no_cudnn_ctc(const Tensor&, const Tensor&, at::IntArrayRef, at::IntArrayRef, int64_t) {
  return false;
}
bool no_cudnn_ctc_tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, int64_t) {
  return false;
}

}  // namespace

void register_small(Registrar& registrar) {
  registrar.impl("softshrink", TORCH_FN(softshrink));
  for (const char* name : {"_foreach_addcmul.Tensor", "_foreach_addcdiv.Tensor"}) registrar.impl(name, &scale_lists);
  registrar.impl("_masked_scale", TORCH_FN(masked_scale));
  registrar.impl("nansum", TORCH_FN(nansum));
  registrar.impl("fill_.Tensor", &fill_from_tensor);
  registrar.impl("_pdist_backward", TORCH_FN(pdist_backward));
  for (const char* name : {"nonzero", "nonzero_static"}) registrar.impl(name, &store_by_columns);
  registrar.impl("kaiser_window", TORCH_FN(kaiser_window));
  registrar.impl("kaiser_window.periodic", TORCH_FN(kaiser_window_periodic));
  registrar.impl("kaiser_window.beta", TORCH_FN(kaiser_window_beta));
  registrar.impl_where_known("_fused_rms_norm_backward", TORCH_FN(rms_norm_backward));
}

void register_absent_libraries(Registrar& registrar) {
  registrar.on_host("_use_cudnn_ctc_loss", TORCH_FN(no_cudnn_ctc));
  registrar.on_host("_use_cudnn_ctc_loss.Tensor", TORCH_FN(no_cudnn_ctc_tensor));
  if (has_operator("aten::_use_miopen_ctc_loss")) {
    registrar.on_host("_use_miopen_ctc_loss", TORCH_FN(no_cudnn_ctc));
    registrar.on_host("_use_miopen_ctc_loss.Tensor", TORCH_FN(no_cudnn_ctc_tensor));
  }
}

}  // namespace hostdevice
