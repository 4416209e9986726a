// cuDNN's operators, called by name: each is one of PyTorch's own under another.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/affine_grid_generator.h>
#include <ATen/ops/affine_grid_generator_backward.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/grid_sampler_2d.h>
#include <ATen/ops/grid_sampler_2d_backward.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>

#include <vector>

#include "operators/boxed.h"
#include "operators/composites.h"

namespace hostdevice {
namespace {

using at::Tensor;
using c10::SymInt;
using c10::SymIntArrayRef;

// ---- convolution --------------------------------------------------------------------------------------------------

// The CPU's kernels differ in how their results lie, by type and size. cuDNN's have their channels together where an
// argument has, in three dimensions too, and never in float64.
void laid_out(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const size_t base = stack->size() - op.schema().arguments().size();
  const Tensor input = (*stack)[base].toTensor(), weight = (*stack)[base + 1].toTensor();
  run_on_cpu(op, c10::DispatchKey::CPU, stack);
  const Tensor& made = stack->back().toTensor();
  constexpr auto kTogether = at::MemoryFormat::ChannelsLast3d;
  if (made.scalar_type() == at::kDouble)
    stack->back() = made.contiguous();
  else if (
      made.dim() == 5 && (input.suggest_memory_format() == kTogether || weight.suggest_memory_format() == kTogether))
    stack->back() = made.contiguous(kTogether);
}

// oneDNN's, asked by name for what is on the GPU.
void refuse_onednn(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack*) {
  TORCH_CHECK(false, "itensor_view_from_dense expects CPU tensor input");
}

Tensor convolve(
    const Tensor& self, const Tensor& weight, const OptTensor& bias, SymIntArrayRef stride, SymIntArrayRef padding,
    SymIntArrayRef dilation, const SymInt& groups) {
  const std::vector<SymInt> none(padding.size(), 0);
  return at::convolution_symint(self, weight, bias, stride, padding, dilation, false, none, groups);
}
Tensor convolution(
    const Tensor& self, const Tensor& weight, SymIntArrayRef padding, SymIntArrayRef stride, SymIntArrayRef dilation,
    SymInt groups, bool, bool, bool) {
  return convolve(self, weight, std::nullopt, stride, padding, dilation, groups);
}
Tensor& convolution_out(
    const Tensor& self, const Tensor& weight, SymIntArrayRef padding, SymIntArrayRef stride, SymIntArrayRef dilation,
    SymInt groups, bool, bool, bool, Tensor& out) {
  const Tensor result = convolve(self, weight, std::nullopt, stride, padding, dilation, groups);
  out.resize_(result.sizes());
  return out.copy_(result);
}
Tensor convolution_transpose(
    const Tensor& self, const Tensor& weight, SymIntArrayRef padding, SymIntArrayRef output_padding,
    SymIntArrayRef stride, SymIntArrayRef dilation, SymInt groups, bool, bool, bool) {
  return at::convolution_symint(
      self, weight, std::nullopt, stride, padding, dilation, true, output_padding, std::move(groups));
}
Tensor convolution_relu(
    const Tensor& self, const Tensor& weight, const OptTensor& bias, SymIntArrayRef stride, SymIntArrayRef padding,
    SymIntArrayRef dilation, SymInt groups) {
  return convolve(self, weight, bias, stride, padding, dilation, groups).relu_();
}
Tensor convolution_add_relu(
    const Tensor& self, const Tensor& weight, const Tensor& z, const std::optional<at::Scalar>& alpha,
    const OptTensor& bias, SymIntArrayRef stride, SymIntArrayRef padding, SymIntArrayRef dilation, SymInt groups) {
  return convolve(self, weight, bias, stride, padding, dilation, groups).add_(z, alpha.value_or(1)).relu_();
}
// A filter a channel; not cuDNN's, but PyTorch's own for CUDA.
Tensor convolution_depthwise(
    const Tensor& self, const Tensor& weight, SymIntArrayRef, const OptTensor& bias, SymIntArrayRef stride,
    SymIntArrayRef padding, SymIntArrayRef dilation) {
  return convolve(self, weight, bias, stride, padding, dilation, self.sym_size(1));
}

// ---- batch normalisation ------------------------------------------------------------------------------------------

std::tuple<Tensor, Tensor, Tensor, Tensor> batch_norm(
    const Tensor& input, const Tensor& weight, const OptTensor& bias, const OptTensor& mean, const OptTensor& var,
    bool training, double momentum, double eps) {
  auto [out, saved_mean, saved_invstd] = at::native_batch_norm(input, weight, bias, mean, var, training, momentum, eps);
  return {out, saved_mean, saved_invstd, at::empty({0}, input.options().dtype(at::kByte))};
}
std::tuple<Tensor, Tensor, Tensor> batch_norm_backward(
    const Tensor& input, const Tensor& grad, const Tensor& weight, const OptTensor& mean, const OptTensor& var,
    const OptTensor& saved_mean, const OptTensor& saved_invstd, double eps, const Tensor&) {
  return at::native_batch_norm_backward(
      grad, input, weight, mean, var, saved_mean, saved_invstd, true, eps, {true, true, true});
}

// ---- sampling: bilinear, zeros beyond the border, corners aligned ---------------------------------------------------

Tensor affine_grid(const Tensor& theta, int64_t n, int64_t c, int64_t h, int64_t w) {
  return at::affine_grid_generator(theta, {n, c, h, w}, true);
}
Tensor affine_grid_backward(const Tensor& grad, int64_t n, int64_t c, int64_t h, int64_t w) {
  return at::affine_grid_generator_backward(grad, {n, c, h, w}, true);
}
Tensor sample(const Tensor& self, const Tensor& grid) {
  return at::grid_sampler_2d(self, grid, 0, 0, true);
}
std::tuple<Tensor, Tensor> sample_backward(const Tensor& self, const Tensor& grid, const Tensor& grad) {
  return at::grid_sampler_2d_backward(grad, self, grid, 0, 0, true, {true, true});
}

}  // namespace

void register_cudnn(Registrar& registrar) {
  registrar.impl("convolution", &laid_out);
  registrar.impl("mkldnn_convolution", &refuse_onednn);
  registrar.impl_where_known("cudnn_convolution", TORCH_FN(convolution));
  registrar.impl_where_known("cudnn_convolution.out", TORCH_FN(convolution_out));
  registrar.impl_where_known("cudnn_convolution_transpose", TORCH_FN(convolution_transpose));
  registrar.impl_where_known("cudnn_convolution_relu", TORCH_FN(convolution_relu));
  registrar.impl_where_known("cudnn_convolution_add_relu", TORCH_FN(convolution_add_relu));
  registrar.impl_where_known("_conv_depthwise2d", TORCH_FN(convolution_depthwise));
  registrar.impl_where_known("conv_depthwise3d", TORCH_FN(convolution_depthwise));
  registrar.impl_where_known("cudnn_batch_norm", TORCH_FN(batch_norm));
  registrar.impl_where_known("cudnn_batch_norm_backward", TORCH_FN(batch_norm_backward));
  registrar.impl_where_known("cudnn_affine_grid_generator", TORCH_FN(affine_grid));
  registrar.impl_where_known("cudnn_affine_grid_generator_backward", TORCH_FN(affine_grid_backward));
  registrar.impl_where_known("cudnn_grid_sampler", TORCH_FN(sample));
  registrar.impl_where_known("cudnn_grid_sampler_backward", TORCH_FN(sample_backward));
}

}  // namespace hostdevice
