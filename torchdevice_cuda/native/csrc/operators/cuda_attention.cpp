// CUDA's fused attention kernels, called by name.
#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <cmath>
#include <limits>

#include "operators/composites.h"

namespace hostdevice {
namespace {

using at::Tensor;

// They keep the row's log-sum-exp instead of the probabilities; so do these.
struct Attention {
  Tensor out, logsumexp;
};

Tensor attention_scores(
    const Tensor& q, const Tensor& k, const OptTensor& bias, bool causal, std::optional<double> scale) {
  const double s = scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(-1))));
  Tensor scores = at::matmul(q.to(at::kFloat), k.to(at::kFloat).transpose(-2, -1)).mul_(s);
  if (given(bias)) scores = scores + *bias;
  if (causal) {
    const auto allowed = at::ones({q.size(-2), k.size(-2)}, q.options().dtype(at::kBool)).tril_();
    scores.masked_fill_(allowed.logical_not(), -std::numeric_limits<float>::infinity());
  }
  return scores;
}

Attention attention_forward(
    const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& bias, double dropout, bool causal,
    std::optional<double> scale) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      dropout == 0.0,
      "fused attention with dropout is not available on the virtual GPU; use "
      "torch.nn.functional.scaled_dot_product_attention");
  const Tensor scores = attention_scores(q, k, bias, causal, scale);
  const Tensor lse = at::logsumexp(scores, {-1});
  const Tensor p = at::exp(scores - lse.unsqueeze(-1));
  return {at::matmul(p, v.to(at::kFloat)).to(q.scalar_type()), lse};
}

struct AttentionGrads {
  Tensor q, k, v, bias;
};

AttentionGrads attention_backward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& bias, const Tensor& out,
    const Tensor& lse, bool causal, std::optional<double> scale) {
  const double s = scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(-1))));
  const Tensor g = grad.to(at::kFloat);
  const Tensor p = at::exp(attention_scores(q, k, bias, causal, scale) - lse.unsqueeze(-1));
  const Tensor dp = at::matmul(g, v.to(at::kFloat).transpose(-2, -1));
  const Tensor ds = p * (dp - (g * out.to(at::kFloat)).sum(-1, true));
  AttentionGrads r;
  r.q = at::matmul(ds, k.to(at::kFloat)).mul_(s).to(q.scalar_type());
  r.k = at::matmul(ds.transpose(-2, -1), q.to(at::kFloat)).mul_(s).to(k.scalar_type());
  r.v = at::matmul(p.transpose(-2, -1), g).to(v.scalar_type());
  if (given(bias)) r.bias = at::sum_to(ds, bias->sizes()).to(bias->scalar_type());
  return r;
}

Tensor no_seed(const Tensor& like) {
  return at::zeros({}, like.options().dtype(at::kLong));
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_attention(
    const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& bias, bool, double dropout, bool causal,
    std::optional<double> scale) {
  auto a = attention_forward(q, k, v, bias, dropout, causal, scale);
  return {a.out, a.logsumexp, no_seed(q), no_seed(q)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_attention_backward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, const Tensor& out,
    const Tensor& lse, const Tensor&, const Tensor&, double, std::array<bool, 4> wanted, bool causal,
    std::optional<double> scale) {
  if (!grad.defined()) return {};
  auto g = attention_backward(grad, q, k, v, bias, out, lse, causal, scale);
  return {g.q, g.k, g.v, wanted[3] ? g.bias : Tensor()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> flash_attention(
    const Tensor& q, const Tensor& k, const Tensor& v, double dropout, bool causal, bool, std::optional<double> scale) {
  auto a = attention_forward(q, k, v, std::nullopt, dropout, causal, scale);
  return {a.out,      a.logsumexp, Tensor(),
          Tensor(),   q.size(-2),  k.size(-2),
          no_seed(q), no_seed(q),  at::empty({0}, q.options())};
}

std::tuple<Tensor, Tensor, Tensor> flash_attention_backward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out, const Tensor& lse,
    const Tensor&, const Tensor&, c10::SymInt, c10::SymInt, double, bool causal, const Tensor&, const Tensor&,
    std::optional<double> scale) {
  if (!grad.defined()) return {};
  auto g = attention_backward(grad, q, k, v, std::nullopt, out, lse, causal, scale);
  return {g.q, g.k, g.v};
}

}  // namespace

void register_fused_attention(Registrar& registrar) {
  registrar.impl("_scaled_dot_product_efficient_attention", TORCH_FN(efficient_attention));
  registrar.impl("_scaled_dot_product_efficient_attention_backward", TORCH_FN(efficient_attention_backward));
  registrar.impl("_scaled_dot_product_flash_attention", TORCH_FN(flash_attention));
  registrar.impl("_scaled_dot_product_flash_attention_backward", TORCH_FN(flash_attention_backward));
}

}  // namespace hostdevice
