// CUDA's fused attention kernels, which programs can call by name.
#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "attention/attention_dropout.h"
#include "attention/cpu_attention.h"
#include "attention/sequences.h"
#include "operators/composites.h"
#include "operators/types.h"

namespace hostdevice {
namespace {

using at::Tensor;

// The results of a fused kernel. Like CUDA's, it stores each row's log-sum-exp instead of the probabilities, and the
// generator state from which dropout was drawn.
struct Attention {
  Tensor out, logsumexp;
  AttentionMask drawn;
  Tensor shown;  // the probabilities, negative where dropped, if they are asked for
};

Tensor attention_scores(
    const Tensor& q, const Tensor& k, const OptTensor& bias, Band band, std::optional<double> scale) {
  const double s = scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(-1))));
  Tensor scores = at::matmul(q.to(at::kFloat), k.to(at::kFloat).transpose(-2, -1)).mul_(s);
  if (is_defined(bias)) scores = scores + *bias;
  if (band.first || band.last) {
    auto allowed = at::ones({q.size(-2), k.size(-2)}, q.options().dtype(at::kBool));
    if (band.last) allowed.tril_(*band.last);
    if (band.first) allowed.triu_(*band.first);
    scores.masked_fill_(allowed.logical_not(), -std::numeric_limits<float>::infinity());
  }
  return scores;
}

// Return the probabilities; all are zero for a query that may attend to no key.
Tensor probabilities(const Tensor& scores, const Tensor& lse) {
  return at::exp(scores - lse.unsqueeze(-1)).nan_to_num_(0.0);
}

// The flash kernel shows its dropout in a tensor of whole tiles.
Tensor show_dropped(const Tensor& p, const Tensor& kept, const Tensor& q) {
  constexpr int64_t kTile = 128;
  const int64_t rows = p.size(-2), columns = p.size(-1);
  const Tensor shown = at::where(kept.to(at::kBool), p, -p).to(q.scalar_type());
  return at::constant_pad_nd(shown, {0, (kTile - columns % kTile) % kTile, 0, (kTile - rows % kTile) % kTile});
}
void check_debug(bool debug, double dropout) {
  TORCH_CHECK(!debug || dropout > 0, "return_softmax is only supported when p_dropout > 0.0");
}

Attention attention_forward(
    const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& bias, double dropout, Band band,
    std::optional<double> scale, std::optional<int64_t> words = std::nullopt, bool debug = false) {
  if (cpu_attends(q, k, v, bias, dropout) && band.is_known_to_cpu()) {
    const bool causal = band.last.has_value();
    auto [out, sums] = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, bias, scale);
    return {out, sums.to(at::kFloat).contiguous(), make_empty_mask(), Tensor()};
  }
  const Tensor scores = attention_scores(q, k, bias, band, scale);
  const Tensor lse = at::logsumexp(scores, {-1});
  auto drawn = make_empty_mask();
  if (dropout > 0) drawn = draw_attention_mask(q, k.size(-2), dropout, words);
  const Tensor all = probabilities(scores, lse), p = Dropped{drawn.kept, dropout}(all);
  return {
      at::matmul(p, v.to(at::kFloat)).to(q.scalar_type()), lse, drawn,
      debug ? show_dropped(all, drawn.kept, q) : Tensor()};
}

struct AttentionGrads {
  Tensor q, k, v, bias;
};

AttentionGrads attention_backward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& bias, const Tensor& out,
    const Tensor& lse, Band band, std::optional<double> scale, const Dropped& dropped = {}, bool bias_too = true) {
  // The CPU's kernel reads one log-sum-exp per query.
  TORCH_CHECK(
      lse.size(-1) == q.size(-2), "the backward pass of attention needs logsumexp of ", q.size(-2),
      " queries, and got that of ", lse.size(-1), ": set compute_log_sumexp=True in the forward pass");
  if (!dropped.kept.defined() && cpu_attends(q, k, v, bias, 0.0) && band.is_known_to_cpu() &&
      !(bias_too && is_defined(bias))) {
    auto [gq, gk, gv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        grad, q, k, v, out, lse, 0.0, band.last.has_value(), bias, scale);
    return {gq, gk, gv, Tensor()};
  }
  const double s = scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(-1))));
  const Tensor g = grad.to(at::kFloat);
  const Tensor p = probabilities(attention_scores(q, k, bias, band, scale), lse);
  const Tensor dp = dropped(at::matmul(g, v.to(at::kFloat).transpose(-2, -1)));
  const Tensor ds = p * (dp - (g * out.to(at::kFloat)).sum(-1, true));
  AttentionGrads r;
  r.q = at::matmul(ds, k.to(at::kFloat)).mul_(s).to(q.scalar_type());
  r.k = at::matmul(ds.transpose(-2, -1), q.to(at::kFloat)).mul_(s).to(k.scalar_type());
  r.v = at::matmul(dropped(p).transpose(-2, -1), g).to(v.scalar_type());
  if (is_defined(bias)) r.bias = at::sum_to(ds, bias->sizes()).to(bias->scalar_type());
  return r;
}

// Repeat the heads of keys and values that several query heads share.
Tensor repeat_heads(const Tensor& t, const Tensor& q) {
  return t.size(-3) == q.size(-3) ? t : t.repeat_interleave(q.size(-3) / t.size(-3), -3);
}
Tensor sum_heads(const Tensor& grad, const Tensor& like) {
  if (grad.size(-3) == like.size(-3)) return grad;
  return grad.unflatten(-3, {like.size(-3), grad.size(-3) / like.size(-3)}).sum(-3);
}

// Pad the log-sum-exp like the memory-efficient kernel, to a multiple of the rows that it processes at once; return an
// empty tensor if it is not wanted.
Tensor pad_logsumexp(const Tensor& sums, bool wanted) {
  constexpr int64_t kRows = 32;
  const int64_t rows = sums.size(-1), left = (kRows - rows % kRows) % kRows;
  if (!wanted) return sums.slice(-1, 0, 0).clone(at::MemoryFormat::Contiguous);
  return at::constant_pad_nd(sums, {0, left}, std::numeric_limits<float>::infinity());
}

// Copy into the layout of the memory-efficient kernel: heads come after positions, whatever the sizes.
Tensor put_heads_last(const Tensor& t) {
  const int64_t size = t.size(-1), row = t.size(1) * size;
  const Tensor packed = t.transpose(1, 2).contiguous();
  return packed.as_strided(t.sizes(), {t.size(2) * row, size, row, 1});
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_attention(
    const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& bias, bool wants_sums, double dropout,
    bool causal, std::optional<double> scale) {
  auto a = attention_forward(q, k, v, bias, dropout, from_start(causal), scale);
  return {put_heads_last(a.out), pad_logsumexp(a.logsumexp, wants_sums), a.drawn.seed, a.drawn.offset};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_attention_backward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, const Tensor& out,
    const Tensor& lse, const Tensor& seed, const Tensor& offset, double dropout, std::array<bool, 4> wanted,
    bool causal, std::optional<double> scale) {
  if (!grad.defined()) return {};
  auto g = attention_backward(
      grad, q, k, v, bias, out, lse.slice(-1, 0, q.size(-2)), from_start(causal), scale,
      redraw_mask(q, k, dropout, seed, offset), wanted[3]);
  return {put_heads_last(g.q), put_heads_last(g.k), put_heads_last(g.v), wanted[3] ? g.bias : Tensor()};
}

void check_flash_type(const Tensor& q) {
  TORCH_CHECK(holds(kHalves, q.scalar_type()), "FlashAttention only support fp16 and bf16 data type");
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> flash_attention(
    const Tensor& q, const Tensor& k, const Tensor& v, double dropout, bool causal, bool debug,
    std::optional<double> scale) {
  check_flash_type(q);
  check_debug(debug, dropout);
  auto a = attention_forward(
      q, repeat_heads(k, q), repeat_heads(v, q), std::nullopt, dropout, from_start(causal), scale, FlashState::words(q),
      debug);
  const FlashState state(a.drawn, q);
  return {
      copy_layout(q, a.out),
      a.logsumexp,
      Tensor(),
      Tensor(),
      q.size(-2),
      k.size(-2),
      state.both,
      state.unused,
      debug ? a.shown : at::empty({0}, q.options())};
}

std::tuple<Tensor, Tensor, Tensor> flash_attention_backward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out, const Tensor& lse,
    const Tensor&, const Tensor&, c10::SymInt, c10::SymInt, double dropout, bool causal, const Tensor& state,
    const Tensor&, std::optional<double> scale) {
  if (!grad.defined()) return {};
  auto g = attention_backward(
      grad, q, repeat_heads(k, q), repeat_heads(v, q), std::nullopt, out, lse, from_start(causal), scale,
      redraw_mask(q, k, dropout, state));
  return {copy_layout(q, g.q), copy_layout(k, sum_heads(g.k, k)), copy_layout(v, sum_heads(g.v, v))};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> cudnn_attention(
    const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& bias, bool, double dropout, bool causal, bool,
    std::optional<double> scale) {
  auto a = attention_forward(q, repeat_heads(k, q), repeat_heads(v, q), bias, dropout, from_start(causal), scale);
  return {
      copy_layout(q, a.out),
      a.logsumexp.contiguous().unsqueeze(-1),
      Tensor(),
      Tensor(),
      q.size(-2),
      k.size(-2),
      a.drawn.seed,
      a.drawn.offset,
      Tensor()};
}

std::tuple<Tensor, Tensor, Tensor> cudnn_attention_backward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out, const Tensor& lse,
    const Tensor& seed, const Tensor& offset, const Tensor& bias, const Tensor&, const Tensor&, c10::SymInt,
    c10::SymInt, double dropout, bool causal, std::optional<double> scale) {
  if (!grad.defined()) return {};
  auto g = attention_backward(
      grad, q, repeat_heads(k, q), repeat_heads(v, q), bias, out, lse.squeeze(-1), from_start(causal), scale,
      redraw_mask(q, k, dropout, seed, offset), false);
  return {copy_layout(q, g.q), copy_layout(k, sum_heads(g.k, k)), copy_layout(v, sum_heads(g.v, v))};
}

// ---- packed sequences ---------------------------------------------------------------------------------------------

Attention sequences_forward(
    const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& bias, const Sequences& all, double dropout,
    const Window& window, std::optional<double> scale, std::optional<int64_t> words = std::nullopt,
    bool debug = false) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      dropout == 0 || !all.packed,
      "fused attention with dropout in packed sequences is not available on the virtual GPU; use "
      "torch.nn.functional.scaled_dot_product_attention");
  auto drawn = make_empty_mask();
  auto sizes = q.sizes().vec();
  sizes.back() = v.size(-1);
  // Give the result the layout of the queries.
  Tensor out = sizes == q.sizes().vec() ? at::empty_like(q) : at::empty(sizes, q.options());
  std::vector<Tensor> sums;
  Tensor shown;
  for (size_t i = 0; i < all.count(); i++) {
    const Tensor part = all.queries(q, i), keys = repeat_heads(all.keys(k, i), part),
                 values = repeat_heads(all.keys(v, i), part);
    auto a = attention_forward(part, keys, values, bias, dropout, window.band(part, keys), scale, words, debug);
    drawn = a.drawn;
    shown = a.shown;
    all.queries(out, i).copy_(a.out);
    sums.push_back(a.logsumexp);
  }
  return {out, all.packed ? at::cat(sums, -1) : at::cat(sums, 0), drawn, shown};
}

AttentionGrads sequences_backward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& bias, const Tensor& out,
    const Tensor& lse, const Sequences& all, const Window& window, std::optional<double> scale,
    const Dropped& dropped) {
  AttentionGrads r{at::zeros_like(q), at::zeros_like(k), at::zeros_like(v), Tensor()};
  for (size_t i = 0; i < all.count(); i++) {
    const Tensor part = all.queries(q, i), keys = all.keys(k, i), values = all.keys(v, i);
    const Tensor sums = all.packed ? lse.slice(-1, all.from_q[i], all.from_q[i + 1]) : lse;
    auto g = attention_backward(
        all.queries(grad, i), part, repeat_heads(keys, part), repeat_heads(values, part), bias, all.queries(out, i),
        sums, window.band(part, keys), scale, dropped);
    all.queries(r.q, i).copy_(g.q);
    all.keys(r.k, i).copy_(sum_heads(g.k, keys));
    all.keys(r.v, i).copy_(sum_heads(g.v, values));
    r.bias = g.bias;
  }
  return r;
}

template <class... T>
void check_absent(const char* what, const T&... given) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      (!given.has_value() && ...), "fused attention with ", what,
      " is not available on the virtual GPU; use "
      "torch.nn.functional.scaled_dot_product_attention");
}
// The flash kernels align the window at the last query and the last key.
Window flash_window(bool causal, const std::optional<c10::SymInt>& left, const std::optional<c10::SymInt>& right) {
  const auto size = [](const std::optional<c10::SymInt>& given) {
    return given ? given->expect_int() : Window::kUnbounded;
  };
  return {Mask::FromEnd, size(left), causal ? 0 : size(right)};
}

// The signature of releases with paged keys, which also takes a page table and the number of splits.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> paged_flash_forward(
    const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& starts_q, const OptTensor& starts_k,
    c10::SymInt, c10::SymInt, double dropout, bool causal, bool debug, std::optional<double> scale,
    std::optional<c10::SymInt> left, std::optional<c10::SymInt> right, const OptTensor& used, const OptTensor& slopes,
    const OptTensor& pages, std::optional<int64_t>) {
  check_flash_type(q);
  check_debug(debug, dropout);
  check_absent("biases of positions", slopes);
  const auto words = FlashState::words(q.transpose(1, 2));
  auto a = sequences_forward(
      q, k, v, std::nullopt, Sequences(q, starts_q, starts_k, used, pages), dropout, flash_window(causal, left, right),
      scale, words, debug);
  const FlashState state(a.drawn, q);
  return {a.out, a.logsumexp, state.both, state.unused, debug ? a.shown : at::empty({0}, q.options())};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> flash_forward(
    const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& starts_q, const OptTensor& starts_k,
    c10::SymInt longest_q, c10::SymInt longest_k, double dropout, bool causal, bool debug, std::optional<double> scale,
    std::optional<c10::SymInt> left, std::optional<c10::SymInt> right, const OptTensor& used, const OptTensor& slopes) {
  return paged_flash_forward(
      q, k, v, starts_q, starts_k, longest_q, longest_k, dropout, causal, debug, scale, left, right, used, slopes,
      std::nullopt, std::nullopt);
}

std::tuple<Tensor, Tensor, Tensor> flash_backward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out, const Tensor& lse,
    const Tensor& starts_q, const Tensor& starts_k, c10::SymInt, c10::SymInt, double dropout, bool causal,
    const Tensor& state, const Tensor&, std::optional<double> scale, std::optional<c10::SymInt> left,
    std::optional<c10::SymInt> right) {
  if (!grad.defined()) return {};
  auto g = sequences_backward(
      grad, q, k, v, std::nullopt, out, lse, Sequences(q, starts_q, starts_k), flash_window(causal, left, right), scale,
      redraw_mask(q.transpose(1, 2), k.transpose(1, 2), dropout, state));
  return {g.q, g.k, g.v};
}

// The memory-efficient kernel counts a query's own position into its window.
Window efficient_window(int64_t mask, std::optional<int64_t> window) {
  TORCH_CHECK(window.value_or(0) <= 0 || mask != 0, "custom_mask_type not supported");
  return {
      static_cast<Mask>(mask), window.value_or(0) > 0 ? *window - 1 : Window::kUnbounded,
      mask ? 0 : Window::kUnbounded};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt> efficient_forward(
    const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& bias, const OptTensor& starts_q,
    const OptTensor& starts_k, std::optional<c10::SymInt> longest_q, std::optional<c10::SymInt> longest_k,
    double dropout, int64_t mask, bool wants_sums, std::optional<double> scale, const OptTensor& lengths,
    std::optional<int64_t> window) {
  const auto type = q.scalar_type();
  TORCH_CHECK(type == at::kFloat || type == at::kHalf || type == at::kBFloat16, "Only fp32, half & bf16 supported!");
  check_absent("lengths", lengths);
  // The memory-efficient kernel takes packed sequences as a batch of one.
  auto a = sequences_forward(
      q, k, v, bias, Sequences(q, starts_q, starts_k), dropout, efficient_window(mask, window), scale);
  const bool packed = is_defined(starts_q);
  return {
      a.out,
      packed ? a.logsumexp.unsqueeze(0) : pad_logsumexp(a.logsumexp, wants_sums),
      a.drawn.seed,
      a.drawn.offset,
      packed ? longest_q.value_or(q.size(1)) : c10::SymInt(q.size(1)),
      packed ? longest_k.value_or(k.size(1)) : c10::SymInt(k.size(1))};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_backward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& bias, const Tensor& out,
    const OptTensor& starts_q, const OptTensor& starts_k, c10::SymInt, c10::SymInt, const Tensor& lse, double dropout,
    const Tensor& seed, const Tensor& offset, int64_t mask, bool bias_too, std::optional<double> scale,
    std::optional<int64_t>, std::optional<int64_t> window, bool) {
  if (!grad.defined()) return {};
  const Sequences all(q, starts_q, starts_k);
  auto g = sequences_backward(
      grad, q, k, v, bias, out, all.packed ? lse.squeeze(0) : lse.slice(-1, 0, q.size(1)), all,
      efficient_window(mask, window), scale, redraw_mask(q.transpose(1, 2), k.transpose(1, 2), dropout, seed, offset));
  return {g.q, g.k, g.v, bias_too ? g.bias : Tensor()};
}

}  // namespace

void register_fused_attention(Registrar& registrar) {
  // Compiled graphs call these operators with CPU aliases of device tensors.
  Registrar compiled(c10::DispatchKey::CPU);
  for (auto* one : {&registrar, &compiled}) {
    one->impl("_scaled_dot_product_efficient_attention", TORCH_FN(efficient_attention));
    one->impl("_scaled_dot_product_efficient_attention_backward", TORCH_FN(efficient_attention_backward));
    one->impl("_scaled_dot_product_flash_attention", TORCH_FN(flash_attention));
    one->impl("_scaled_dot_product_flash_attention_backward", TORCH_FN(flash_attention_backward));
    one->impl_where_known("_scaled_dot_product_cudnn_attention", TORCH_FN(cudnn_attention));
    one->impl_where_known("_scaled_dot_product_cudnn_attention_backward", TORCH_FN(cudnn_attention_backward));
    one->impl_where_known("_flash_attention_forward", TORCH_FN(flash_forward));
    one->impl_where_known("_flash_attention_forward", TORCH_FN(paged_flash_forward));
    one->impl_where_known("_flash_attention_backward", TORCH_FN(flash_backward));
    one->impl_where_known("_efficient_attention_forward", TORCH_FN(efficient_forward));
    one->impl_where_known("_efficient_attention_backward", TORCH_FN(efficient_backward));
  }
}

}  // namespace hostdevice
