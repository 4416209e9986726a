// Operators that only exist for CUDA (or go through a table a CPU build has no CUDA entry in), written with others.
#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool2d_with_indices_backward.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

#include "operators/boxed.h"
#include "runtime/device.h"
#include "runtime/install.h"

namespace hostdevice {
namespace {

using at::Tensor;
using OptTensor = std::optional<Tensor>;

bool given(const OptTensor& t) {
  return t.has_value() && t->defined();
}

// ---- attention ----------------------------------------------------------------------------------------------------

// The same choice the CPU makes: its flash kernel where that applies, else the math. Both are differentiable.
Tensor attention(
    const Tensor& query, const Tensor& key, const Tensor& value, const OptTensor& mask, double dropout, bool causal,
    std::optional<double> scale, bool enable_gqa) {
  const bool nested = query.is_nested() || key.is_nested() || value.is_nested();
  OptTensor bias = mask;
  if (given(mask) && mask->scalar_type() == at::kBool) {
    bias = at::zeros_like(*mask, query.options().requires_grad(false))
               .masked_fill_(mask->logical_not(), -std::numeric_limits<double>::infinity());
  }
  if (kIsCuda && !nested && query.dim() == 4) {
    // 1 is flash attention in sdp::SDPBackend.
    if (at::_fused_sdp_choice(query, key, value, mask, dropout, causal, scale, enable_gqa) == 1) {
      return std::get<0>(
          at::_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout, causal, bias, scale));
    }
  }
  return std::get<0>(at::_scaled_dot_product_attention_math(
      query, key, value, bias, dropout, causal, std::nullopt, scale, enable_gqa));
}

#ifdef HOSTDEVICE_CUDA

// Fused kernels called by name keep the row's log-sum-exp instead of the probabilities; so do these.
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

// ---- recurrent cells ----------------------------------------------------------------------------------------------

Tensor gates_with_bias(const Tensor& gates, const OptTensor& bias) {
  return given(bias) ? gates + *bias : gates;
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell(
    const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx, const OptTensor& input_bias,
    const OptTensor& hidden_bias) {
  const auto hidden = cx.size(1);
  Tensor workspace = gates_with_bias(input_gates + hidden_gates, input_bias);
  if (given(hidden_bias)) workspace.add_(*hidden_bias);
  const auto gate = [&](int64_t i) { return workspace.narrow(1, i * hidden, hidden); };
  Tensor in = gate(0).sigmoid_(), forget = gate(1).sigmoid_(), cell = gate(2).tanh_(), out = gate(3).sigmoid_();
  Tensor cy = (forget * cx).addcmul_(in, cell);
  Tensor hy = out * cy.tanh();
  return {hy, cy, workspace};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(
    const OptTensor& grad_hy, const OptTensor& grad_cy, const Tensor& cx, const Tensor& cy, const Tensor& workspace,
    bool has_bias) {
  if (!given(grad_hy) && !given(grad_cy)) return {};
  const auto hidden = cx.size(1);
  const auto gate = [&](int64_t i) { return workspace.narrow(1, i * hidden, hidden); };
  const Tensor in = gate(0), forget = gate(1), cell = gate(2), out = gate(3);
  const Tensor tanh_cy = cy.tanh();
  Tensor grad_out = at::zeros_like(cy), grad_c = given(grad_cy) ? *grad_cy : at::zeros_like(cy);
  if (given(grad_hy)) {
    grad_out = *grad_hy * tanh_cy;
    grad_c = grad_c + *grad_hy * out * (1 - tanh_cy * tanh_cy);
  }
  const Tensor grad_gates = at::cat(
      {grad_c * cell * in * (1 - in), grad_c * cx * forget * (1 - forget), grad_c * in * (1 - cell * cell),
       grad_out * out * (1 - out)},
      1);
  return {grad_gates, grad_c * forget, has_bias ? grad_gates.sum(0) : Tensor()};
}

std::tuple<Tensor, Tensor> gru_cell(
    const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx, const OptTensor& input_bias,
    const OptTensor& hidden_bias) {
  const auto ig = gates_with_bias(input_gates, input_bias).chunk(3, 1);
  const auto hg = gates_with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const Tensor reset = (ig[0] + hg[0]).sigmoid_(), update = (ig[1] + hg[1]).sigmoid_();
  const Tensor fresh = at::addcmul(ig[2], reset, hg[2]).tanh_();
  return {fresh + update * (hx - fresh), at::cat({reset, update, fresh, hx, hg[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(
    const Tensor& grad_hy, const Tensor& workspace, bool has_bias) {
  const auto w = workspace.chunk(5, 1);
  const Tensor &reset = w[0], &update = w[1], &fresh = w[2], &hx = w[3], &hn = w[4];
  const Tensor grad_fresh = grad_hy * (1 - update) * (1 - fresh * fresh);
  const Tensor grad_update = grad_hy * (hx - fresh) * update * (1 - update);
  const Tensor grad_reset = grad_fresh * hn * reset * (1 - reset);
  const Tensor grad_input = at::cat({grad_reset, grad_update, grad_fresh}, 1);
  const Tensor grad_hidden = at::cat({grad_reset, grad_update, grad_fresh * reset}, 1);
  return {
      grad_input, grad_hidden, grad_hy * update, has_bias ? grad_input.sum(0) : Tensor(),
      has_bias ? grad_hidden.sum(0) : Tensor()};
}

// ---- batch normalisation across devices (SyncBatchNorm) -----------------------------------------------------------

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
    const Tensor& input, const Tensor& mean, const Tensor& invstd, const OptTensor& running_mean,
    const OptTensor& running_var, double momentum, double eps, const Tensor& counts) {
  (void)input;
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

// ---- dropout ------------------------------------------------------------------------------------------------------

std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p, std::optional<bool> train) {
  if (input.numel() == 0) return {input, at::empty_like(input, input.options().dtype(at::kBool))};
  if (train.has_value() && !*train) return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
  if (p == 1) {
    return {at::zeros_like(input), at::zeros_like(input, input.options().dtype(at::kBool))};
  }
  Tensor mask = at::empty_like(input, input.options().dtype(at::kBool)).bernoulli_(1 - p);
  return {(input * mask).mul_(1.0 / (1.0 - p)), mask};
}

std::tuple<Tensor, Tensor> fused_dropout(const Tensor& self, double keep, std::optional<at::Generator> generator) {
  Tensor mask = at::empty_like(self, self.options().dtype(at::kByte)).bernoulli_(keep, generator);
  return {(self * mask).mul_(1.0 / keep), mask};
}
Tensor masked_scale(const Tensor& self, const Tensor& mask, double scale) {
  return (self * mask).mul_(scale);
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

#endif  // HOSTDEVICE_CUDA

#ifdef HOSTDEVICE_MPS

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

// convolution (a composite) checks types and devices, then picks "overrideable" for a device that is neither CPU nor
// CUDA. Same argument order, so the CPU's convolution can have the stack as it is.
void convolution(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const auto same = [](const Tensor& a, const Tensor& b, const char* what) {
    TORCH_CHECK(
        a.options().type_equal(b.options()), "Input type (", a.toString(), ") and ", what, " type (", b.toString(),
        ") should be the same");
  };
  const size_t base = stack->size() - 9;
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

#endif  // HOSTDEVICE_MPS

}  // namespace

void register_composites() {
  auto* m = new torch::Library(
      torch::Library::IMPL, "aten", std::make_optional(kDense), __FILE__, static_cast<uint32_t>(__LINE__));
  const auto impl = [&](const char* name, auto&& f) {
    m->impl(name, std::forward<decltype(f)>(f));
    claim(kDense, name);
  };
  impl("scaled_dot_product_attention", TORCH_FN(attention));
#ifdef HOSTDEVICE_CUDA
  impl("_scaled_dot_product_efficient_attention", TORCH_FN(efficient_attention));
  impl("_scaled_dot_product_efficient_attention_backward", TORCH_FN(efficient_attention_backward));
  impl("_scaled_dot_product_flash_attention", TORCH_FN(flash_attention));
  impl("_scaled_dot_product_flash_attention_backward", TORCH_FN(flash_attention_backward));
  impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
  impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstm_cell_backward));
  impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
  impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward));
  impl("batch_norm_stats", TORCH_FN(bn_stats));
  impl("batch_norm_gather_stats", TORCH_FN(bn_gather));
  impl("batch_norm_gather_stats_with_counts", TORCH_FN(bn_gather_with_counts));
  impl("batch_norm_elemt", TORCH_FN(bn_elemt));
  impl("batch_norm_elemt.out", TORCH_FN(bn_elemt_out));
  impl("batch_norm_backward_reduce", TORCH_FN(bn_backward_reduce));
  impl("batch_norm_backward_elemt", TORCH_FN(bn_backward_elemt));
  impl("native_dropout", TORCH_FN(native_dropout));
  impl("_fused_dropout", TORCH_FN(fused_dropout));
  impl("_masked_scale", TORCH_FN(masked_scale));
  impl("_use_cudnn_ctc_loss", TORCH_FN(no_cudnn_ctc));
  impl("_use_cudnn_ctc_loss.Tensor", TORCH_FN(no_cudnn_ctc_tensor));
  if (has_operator("aten::_use_miopen_ctc_loss")) {
    impl("_use_miopen_ctc_loss", TORCH_FN(no_cudnn_ctc));
    impl("_use_miopen_ctc_loss.Tensor", TORCH_FN(no_cudnn_ctc_tensor));
  }
#else
  impl("linear_backward", TORCH_FN(linear_backward));
  impl("max_pool2d_backward", TORCH_FN(max_pool2d_backward));
  impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution>());
  impl("convolution_backward", torch::CppFunction::makeFromBoxedFunction<&convolution_backward>());
#endif
  // The stock composite asks a table for the device's choice of kernel; a CPU build has no entry for this one.
  const auto autograd = kIsCuda ? c10::DispatchKey::AutogradCUDA : c10::DispatchKey::AutogradMPS;
  auto* a = new torch::Library(
      torch::Library::IMPL, "aten", std::make_optional(autograd), __FILE__, static_cast<uint32_t>(__LINE__));
  a->impl("scaled_dot_product_attention", TORCH_FN(attention));
}

}  // namespace hostdevice
