// Operators that only an Apple GPU has.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool2d_with_indices_backward.h>

#include <array>

#include "operators/boxed.h"
#include "operators/composites.h"

namespace hostdevice {
namespace {

using at::Tensor;

std::tuple<Tensor, Tensor, Tensor> linear_backward(
    const Tensor& self, const Tensor& grad, const Tensor& weight, std::array<bool, 3> wanted) {
  Tensor gi, gw, gb;
  if (wanted[0]) gi = grad.matmul(weight.conj());
  if (wanted[1] || wanted[2]) {
    const auto g = grad.reshape({-1, grad.size(-1)});
    if (wanted[1]) gw = g.t().mm(self.reshape({-1, self.size(-1)}).conj());
    if (wanted[2]) gb = g.sum(0);
  }
  return {gi, gw, gb};
}

Tensor max_pool2d_backward(
    const Tensor& grad, const Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
    at::IntArrayRef dilation, bool ceil) {
  const auto indices = std::get<1>(at::max_pool2d_with_indices(self, kernel, stride, padding, dilation, ceil));
  return at::max_pool2d_with_indices_backward(grad, self, kernel, stride, padding, dilation, ceil, indices);
}

// convolution (a composite) checks types and devices, then calls convolution_overrideable for a device that is neither
// CPU nor CUDA. The arguments have the same order, so the CPU's convolution takes the stack unchanged.
void convolution(const c10::OperatorHandle& called, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const auto same = [](const Tensor& a, const Tensor& b, const char* what) {
    TORCH_CHECK(
        a.options().type_equal(b.options()), "Input type (", a.toString(), ") and ", what, " type (", b.toString(),
        ") should be the same");
  };
  const size_t base = stack->size() - called.schema().arguments().size();
  const Tensor input = (*stack)[base].toTensor();
  same(input, (*stack)[base + 1].toTensor(), "weight");
  const auto& bias = (*stack)[base + 2];
  if (bias.isTensor() && bias.toTensor().defined()) same(input, bias.toTensor(), "bias");
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution", "");
  run_on_cpu(op, c10::DispatchKey::CPU, stack);
}
void convolution_backward(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution_backward", "");
  run_on_cpu(op, c10::DispatchKey::CPU, stack);
}

}  // namespace

void register_apple_composites(Registrar& registrar) {
  registrar.impl("linear_backward", TORCH_FN(linear_backward));
  registrar.impl("max_pool2d_backward", TORCH_FN(max_pool2d_backward));
  registrar.impl("convolution_overrideable", &convolution);
  registrar.impl("convolution_backward", &convolution_backward);
}

}  // namespace hostdevice
