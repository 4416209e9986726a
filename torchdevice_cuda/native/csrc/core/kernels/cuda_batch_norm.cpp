// Batch normalisation across devices, which SyncBatchNorm is made of, and what CUDA gives besides on one.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/full.h>
#include <ATen/ops/var_mean.h>

#include <vector>

#include "operators/boxed.h"
#include "operators/composites.h"

namespace hostdevice {
namespace {

using at::Tensor;

std::vector<int64_t> all_but_channel(const Tensor& t) {
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < t.dim(); i++)
    if (i != 1) dims.push_back(i);
  return dims;
}
Tensor per_channel(const Tensor& t, const Tensor& like) {
  std::vector<int64_t> shape(static_cast<size_t>(like.dim()), 1);
  shape[1] = t.numel();
  return t.view(shape);
}
Tensor wide(const Tensor& t) {
  return t.scalar_type() == at::kHalf || t.scalar_type() == at::kBFloat16 ? t.to(at::kFloat) : t;
}

std::tuple<Tensor, Tensor> bn_stats(const Tensor& input, double eps) {
  const auto x = wide(input);
  auto [var, mean] = at::var_mean(x, all_but_channel(x), /*correction=*/std::optional<at::Scalar>(0), false);
  return {mean, (var + eps).rsqrt_()};
}

std::tuple<Tensor, Tensor> bn_gather_with_counts(
    const Tensor& /*input*/, const Tensor& mean, const Tensor& invstd, const OptTensor& running_mean,
    const OptTensor& running_var, double momentum, double eps, const Tensor& counts) {
  const Tensor n = counts.to(mean.scalar_type()).view({-1, 1});
  const Tensor total = n.sum();
  const Tensor all_mean = (mean * n).sum(0) / total;
  const Tensor var = invstd.pow(-2) - eps;
  const Tensor squares = ((var + (mean - all_mean).pow(2)) * n).sum(0);
  if (given(running_mean)) running_mean->mul_(1 - momentum).add_(all_mean.to(running_mean->scalar_type()), momentum);
  if (given(running_var))
    running_var->mul_(1 - momentum).add_((squares / (total - 1)).to(running_var->scalar_type()), momentum);
  return {all_mean, (squares / total + eps).rsqrt_()};
}

std::tuple<Tensor, Tensor> bn_gather(
    const Tensor& input, const Tensor& mean, const Tensor& invstd, const OptTensor& running_mean,
    const OptTensor& running_var, double momentum, double eps, int64_t count) {
  const auto counts = at::full({mean.size(0)}, count, mean.options());
  return bn_gather_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps, counts);
}

Tensor bn_elemt(
    const Tensor& input, const OptTensor& weight, const OptTensor& bias, const Tensor& mean, const Tensor& invstd,
    double) {
  Tensor x = (wide(input) - per_channel(mean, input)) * per_channel(invstd, input);
  if (given(weight)) x = x * per_channel(*weight, input);
  if (given(bias)) x = x + per_channel(*bias, input);
  return x.to(input.scalar_type());
}
Tensor& bn_elemt_out(
    const Tensor& input, const OptTensor& weight, const OptTensor& bias, const Tensor& mean, const Tensor& invstd,
    double eps, Tensor& out) {
  return out.resize_(input.sizes()).copy_(bn_elemt(input, weight, bias, mean, invstd, eps));
}

std::tuple<Tensor, Tensor, Tensor, Tensor> bn_backward_reduce(
    const Tensor& grad, const Tensor& input, const Tensor& mean, const Tensor& invstd, const OptTensor& weight,
    bool input_g, bool weight_g, bool bias_g) {
  const auto dims = all_but_channel(input);
  const Tensor g = wide(grad);
  const Tensor sum = g.sum(dims), with_input = (g * (wide(input) - per_channel(mean, input))).sum(dims);
  const auto narrow = [&](const Tensor& t) { return given(weight) ? t.to(weight->scalar_type()) : t; };
  return {
      input_g ? sum : Tensor(), input_g ? with_input : Tensor(), weight_g ? narrow(with_input * invstd) : Tensor(),
      bias_g ? narrow(sum) : Tensor()};
}

Tensor bn_backward_elemt(
    const Tensor& grad, const Tensor& input, const Tensor& mean, const Tensor& invstd, const OptTensor& weight,
    const Tensor& sum_dy, const Tensor& sum_dy_xmu, const Tensor& count) {
  const Tensor n = count.sum().to(mean.scalar_type());
  const auto shaped = [&](const Tensor& t) { return per_channel(t, input); };
  Tensor r =
      wide(grad) - shaped(sum_dy / n) - (wide(input) - shaped(mean)) * shaped(invstd * invstd * (sum_dy_xmu / n));
  r = r * shaped(given(weight) ? invstd * weight->to(invstd.scalar_type()) : invstd);
  return r.to(input.scalar_type());
}

// ---- one device ---------------------------------------------------------------------------------------------------

// CUDA gives the statistics that it used, where they are given too; the CPU gives none then.
void with_statistics(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const size_t base = stack->size() - op.schema().arguments().size();
  const auto mean = (*stack)[base + 3], var = (*stack)[base + 4];
  const bool training = (*stack)[base + 5].toBool();
  const double eps = (*stack)[base + 7].toDouble();
  run_on_cpu(op, c10::DispatchKey::CPU, stack);
  if (training || !mean.isTensor() || !var.isTensor() || (*stack)[base + 1].toTensor().numel()) return;
  (*stack)[base + 1] = wide(mean.toTensor()).clone();
  (*stack)[base + 2] = (wide(var.toTensor()) + eps).rsqrt_();
}

}  // namespace

void register_synchronized_batch_norm(Registrar& registrar) {
  for (const char* name : {"native_batch_norm", "_native_batch_norm_legit"}) registrar.impl(name, &with_statistics);
  registrar.impl("batch_norm_stats", TORCH_FN(bn_stats));
  registrar.impl("batch_norm_gather_stats", TORCH_FN(bn_gather));
  registrar.impl("batch_norm_gather_stats_with_counts", TORCH_FN(bn_gather_with_counts));
  registrar.impl("batch_norm_elemt", TORCH_FN(bn_elemt));
  registrar.impl("batch_norm_elemt.out", TORCH_FN(bn_elemt_out));
  registrar.impl("batch_norm_backward_reduce", TORCH_FN(bn_backward_reduce));
  registrar.impl("batch_norm_backward_elemt", TORCH_FN(bn_backward_elemt));
}

}  // namespace hostdevice
