// What else only CUDA has: dropout's gradient, RMS normalisation's, and questions about libraries that are not there.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <array>
#include <vector>

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
  registrar.impl_where_known("_fused_rms_norm_backward", TORCH_FN(rms_norm_backward));
}

void register_absent_libraries(Registrar& registrar) {
  registrar.impl("_use_cudnn_ctc_loss", TORCH_FN(no_cudnn_ctc));
  registrar.impl("_use_cudnn_ctc_loss.Tensor", TORCH_FN(no_cudnn_ctc_tensor));
  if (has_operator("aten::_use_miopen_ctc_loss")) {
    registrar.impl("_use_miopen_ctc_loss", TORCH_FN(no_cudnn_ctc));
    registrar.impl("_use_miopen_ctc_loss.Tensor", TORCH_FN(no_cudnn_ctc_tensor));
  }
}

}  // namespace hostdevice
