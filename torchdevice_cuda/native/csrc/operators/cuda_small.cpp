// What else only CUDA has: dropout's gradient and RMS normalisation's, sums of complex numbers without those
// that are none, and questions about libraries that are not there.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/kaiser_window.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "operators/boxed.h"
#include "operators/composites.h"

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
    const Tensor scaled = given(weight) ? g * weight->to(wide) : g;
    to_input = (rstd * (scaled - x * (scaled * x).mean(normalized, true))).to(input.scalar_type());
  }
  if (wanted[1] && given(weight)) {
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

// One element is what it is, of whatever type.
Tensor logcumsumexp(const Tensor& self, int64_t dim) {
  if (self.dim() == 0) return self.clone();
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::_logcumsumexp", "");
  torch::jit::Stack stack{self, dim};
  run_on_cpu(op, c10::DispatchKey::CPU, &stack);
  return std::move(stack.back()).toTensor();
}

// A table of PyTorch's that the CPU's kernel asks has no entry for this device.
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

// Its eigenvectors are laid out by rows.
std::tuple<Tensor, Tensor> eig(const Tensor& self) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::linalg_eig", "");
  torch::jit::Stack stack{self};
  run_on_cpu(op, c10::DispatchKey::CPU, &stack);
  return {stack[0].toTensor(), stack[1].toTensor().clone(at::MemoryFormat::Contiguous)};
}

// Places are laid out by columns, however few there are.
void by_columns(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  run_on_cpu(op, c10::DispatchKey::CPU, stack);
  const Tensor& made = stack->back().toTensor();
  const std::array<int64_t, 2> wanted = {1, std::max<int64_t>(made.size(0), 1)};
  if (!op.schema().overload_name().empty() || made.strides() == at::IntArrayRef(wanted)) return;
  stack->back() = at::empty_strided(made.sizes(), wanted, made.options()).copy_(made);
}

// cuSOLVER lays out what is on the right by rows, and has several ways, which the CPU does not know.
void svd(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  constexpr size_t kDriver = 3;
  const auto& arguments = op.schema().arguments();
  c10::IValue& driver = (*stack)[stack->size() - arguments.size() + kDriver];
  if (driver.isString()) {
    const std::string& name = driver.toStringRef();
    TORCH_CHECK(
        name == "gesvd" || name == "gesvdj" || name == "gesvda", "torch.linalg.svd: unknown svd driver ", name,
        " in svd_cusolver computation. Check doc at https://pytorch.org/docs/stable/generated/torch.linalg.svd.html");
    driver = c10::IValue();
  }
  run_on_cpu(op, c10::DispatchKey::CPU, stack);
  if (op.schema().overload_name().empty()) stack->back() = stack->back().toTensor().clone(at::MemoryFormat::Contiguous);
}

// cuSOLVER has one way only.
void lstsq(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  constexpr size_t kDriver = 3;
  c10::IValue& driver = (*stack)[stack->size() - op.schema().arguments().size() + kDriver];
  TORCH_CHECK(
      !driver.isString() || driver.toStringRef() == "gels",
      "torch.linalg.lstsq: `driver` other than `gels` is not supported on CUDA");
  driver = std::string("gels");
  run_on_cpu(op, c10::DispatchKey::CPU, stack);
}

bool has_operator(const char* name) {
  return c10::Dispatcher::singleton().findOp({name, ""}).has_value();
}

// There is no cuDNN, nor MIOpen.
bool no_cudnn_ctc(const Tensor&, const Tensor&, at::IntArrayRef, at::IntArrayRef, int64_t) {
  return false;
}
bool no_cudnn_ctc_tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, int64_t) {
  return false;
}

}  // namespace

void register_small(Registrar& registrar) {
  registrar.impl("_masked_scale", TORCH_FN(masked_scale));
  registrar.impl("nansum", TORCH_FN(nansum));
  registrar.impl("_logcumsumexp", TORCH_FN(logcumsumexp));
  registrar.impl("linalg_eig", TORCH_FN(eig));
  for (const char* name : {"nonzero", "nonzero_static"})
    registrar.impl(name, torch::CppFunction::makeFromBoxedFunction<&by_columns>());
  for (const char* name : {"_linalg_svd", "_linalg_svd.U"})
    registrar.impl(name, torch::CppFunction::makeFromBoxedFunction<&svd>());
  for (const char* name : {"linalg_lstsq", "linalg_lstsq.out"})
    registrar.impl(name, torch::CppFunction::makeFromBoxedFunction<&lstsq>());
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
