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
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "attention/attention_dropout.h"
#include "attention/cpu_attention.h"
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
};

// The diagonal of a causal mask: how many positions beyond its own a query may attend to. Empty without a mask.
using Diagonal = std::optional<int64_t>;
Diagonal from_start(bool causal) {
  return causal ? Diagonal(0) : std::nullopt;
}
// Align the mask at the end: the last query attends to the last key, whatever their numbers.
Diagonal from_end(bool causal, const Tensor& q, const Tensor& k) {
  return causal ? Diagonal(k.size(-2) - q.size(-2)) : std::nullopt;
}

Tensor attention_scores(
    const Tensor& q, const Tensor& k, const OptTensor& bias, Diagonal causal, std::optional<double> scale) {
  const double s = scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(-1))));
  Tensor scores = at::matmul(q.to(at::kFloat), k.to(at::kFloat).transpose(-2, -1)).mul_(s);
  if (is_defined(bias)) scores = scores + *bias;
  if (causal) {
    const auto allowed = at::ones({q.size(-2), k.size(-2)}, q.options().dtype(at::kBool)).tril_(*causal);
    scores.masked_fill_(allowed.logical_not(), -std::numeric_limits<float>::infinity());
  }
  return scores;
}

// Return the probabilities; all are zero for a query that may attend to no key.
Tensor probabilities(const Tensor& scores, const Tensor& lse) {
  return at::exp(scores - lse.unsqueeze(-1)).nan_to_num_(0.0);
}

Attention attention_forward(
    const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& bias, double dropout, Diagonal causal,
    std::optional<double> scale, std::optional<int64_t> words = std::nullopt) {
  if (cpu_attends(q, k, v, bias, dropout) && causal.value_or(0) == 0) {
    auto [out, sums] = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal.has_value(), bias, scale);
    return {out, sums.to(at::kFloat).contiguous(), make_empty_mask()};
  }
  const Tensor scores = attention_scores(q, k, bias, causal, scale);
  const Tensor lse = at::logsumexp(scores, {-1});
  auto drawn = make_empty_mask();
  if (dropout > 0) drawn = draw_attention_mask(q, k.size(-2), dropout, words);
  const Tensor p = Dropped{drawn.kept, dropout}(probabilities(scores, lse));
  return {at::matmul(p, v.to(at::kFloat)).to(q.scalar_type()), lse, drawn};
}

struct AttentionGrads {
  Tensor q, k, v, bias;
};

AttentionGrads attention_backward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& bias, const Tensor& out,
    const Tensor& lse, Diagonal causal, std::optional<double> scale, const Dropped& dropped = {},
    bool bias_too = true) {
  // The CPU's kernel reads one log-sum-exp per query.
  TORCH_CHECK(
      lse.size(-1) == q.size(-2), "the backward pass of attention needs logsumexp of ", q.size(-2),
      " queries, and got that of ", lse.size(-1), ": set compute_log_sumexp=True in the forward pass");
  if (!dropped.kept.defined() && cpu_attends(q, k, v, bias, 0.0) && causal.value_or(0) == 0 &&
      !(bias_too && is_defined(bias))) {
    auto [gq, gk, gv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        grad, q, k, v, out, lse, 0.0, causal.has_value(), bias, scale);
    return {gq, gk, gv, Tensor()};
  }
  const double s = scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(-1))));
  const Tensor g = grad.to(at::kFloat);
  const Tensor p = probabilities(attention_scores(q, k, bias, causal, scale), lse);
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
    const Tensor& q, const Tensor& k, const Tensor& v, double dropout, bool causal, bool, std::optional<double> scale) {
  check_flash_type(q);
  auto a = attention_forward(
      q, repeat_heads(k, q), repeat_heads(v, q), std::nullopt, dropout, from_start(causal), scale,
      FlashState::words(q));
  const FlashState state(a.drawn, q);
  return {copy_layout(q, a.out),      a.logsumexp, Tensor(), Tensor(), q.size(-2), k.size(-2), state.both, state.unused,
          at::empty({0}, q.options())};
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

// Arguments of the underlying kernels: heads come after positions, and the sequences of a batch may be packed into one
// tensor, with their start offsets. A batch of equally long sequences has a batch dimension instead.
struct Sequences {
  Sequences(const Tensor& q, const OptTensor& starts_q, const OptTensor& starts_k) : packed(is_defined(starts_q)) {
    TORCH_CHECK(
        packed == is_defined(starts_k), "pass the start offsets of both the queries and the keys, or of neither");
    if (!packed) return;
    const Tensor first = starts_q->cpu().to(at::kLong), second = starts_k->cpu().to(at::kLong);
    for (int64_t i = 0; i < first.numel(); i++) {
      from_q.push_back(first[i].item<int64_t>());
      from_k.push_back(second[i].item<int64_t>());
    }
    batched = q.dim() == 4;  // some callers add a batch dimension of size 1
  }
  size_t count() const {
    return packed ? from_q.size() - 1 : 1;
  }
  Tensor part(const Tensor& t, const std::vector<int64_t>& from, size_t i) const {
    if (!packed) return t.transpose(1, 2);
    return (batched ? t.squeeze(0) : t).slice(0, from[i], from[i + 1]).transpose(0, 1);
  }
  Tensor queries(const Tensor& t, size_t i) const {
    return part(t, from_q, i);
  }
  Tensor keys(const Tensor& t, size_t i) const {
    return part(t, from_k, i);
  }
  bool packed, batched = false;
  std::vector<int64_t> from_q, from_k;
};

enum class Mask : uint8_t { None, FromStart, FromEnd };
Diagonal diagonal(Mask mask, const Tensor& q, const Tensor& k) {
  return mask == Mask::FromStart ? from_start(true) : from_end(mask == Mask::FromEnd, q, k);
}

Attention sequences_forward(
    const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& bias, const Sequences& all, double dropout,
    Mask mask, std::optional<double> scale, std::optional<int64_t> words = std::nullopt) {
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
  for (size_t i = 0; i < all.count(); i++) {
    const Tensor part = all.queries(q, i), keys = repeat_heads(all.keys(k, i), part),
                 values = repeat_heads(all.keys(v, i), part);
    auto a = attention_forward(part, keys, values, bias, dropout, diagonal(mask, part, keys), scale, words);
    drawn = a.drawn;
    all.queries(out, i).copy_(a.out);
    sums.push_back(a.logsumexp);
  }
  return {out, at::cat(sums, -1), drawn};
}

AttentionGrads sequences_backward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& bias, const Tensor& out,
    const Tensor& lse, const Sequences& all, Mask mask, std::optional<double> scale, const Dropped& dropped) {
  AttentionGrads r{at::zeros_like(q), at::zeros_like(k), at::zeros_like(v), Tensor()};
  for (size_t i = 0; i < all.count(); i++) {
    const Tensor part = all.queries(q, i), keys = all.keys(k, i), values = all.keys(v, i);
    const Tensor sums = all.packed ? lse.slice(-1, all.from_q[i], all.from_q[i + 1]) : lse;
    auto g = attention_backward(
        all.queries(grad, i), part, repeat_heads(keys, part), repeat_heads(values, part), bias, all.queries(out, i),
        sums, diagonal(mask, part, keys), scale, dropped);
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
// A window of negative size means no window.
void check_no_window(const std::optional<c10::SymInt>& left, const std::optional<c10::SymInt>& right, bool causal) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      left.value_or(-1) < 0 && right.value_or(-1) < (causal ? 1 : 0),
      "fused attention with a window is not available on the virtual GPU; use "
      "torch.nn.functional.scaled_dot_product_attention with a mask");
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> flash_forward(
    const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& starts_q, const OptTensor& starts_k,
    c10::SymInt, c10::SymInt, double dropout, bool causal, bool, std::optional<double> scale,
    std::optional<c10::SymInt> left, std::optional<c10::SymInt> right, const OptTensor& used, const OptTensor& slopes) {
  check_flash_type(q);
  check_no_window(left, right, causal);
  check_absent("cached keys or biases", used, slopes);
  const auto mask = causal ? Mask::FromEnd : Mask::None;
  const auto words = FlashState::words(q.transpose(1, 2));
  auto a = sequences_forward(q, k, v, std::nullopt, Sequences(q, starts_q, starts_k), dropout, mask, scale, words);
  const FlashState state(a.drawn, q);
  return {a.out, a.logsumexp, state.both, state.unused, at::empty({0}, q.options())};
}

// The signature of releases with paged keys, which also takes a page table and the number of splits.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> paged_flash_forward(
    const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& starts_q, const OptTensor& starts_k,
    c10::SymInt longest_q, c10::SymInt longest_k, double dropout, bool causal, bool debug, std::optional<double> scale,
    std::optional<c10::SymInt> left, std::optional<c10::SymInt> right, const OptTensor& used, const OptTensor& slopes,
    const OptTensor& pages, std::optional<int64_t>) {
  check_absent("paged keys", pages);
  return flash_forward(
      q, k, v, starts_q, starts_k, longest_q, longest_k, dropout, causal, debug, scale, left, right, used, slopes);
}

std::tuple<Tensor, Tensor, Tensor> flash_backward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out, const Tensor& lse,
    const Tensor& starts_q, const Tensor& starts_k, c10::SymInt, c10::SymInt, double dropout, bool causal,
    const Tensor& state, const Tensor&, std::optional<double> scale, std::optional<c10::SymInt> left,
    std::optional<c10::SymInt> right) {
  if (!grad.defined()) return {};
  check_no_window(left, right, causal);
  const auto mask = causal ? Mask::FromEnd : Mask::None;
  auto g = sequences_backward(
      grad, q, k, v, std::nullopt, out, lse, Sequences(q, starts_q, starts_k), mask, scale,
      redraw_mask(q.transpose(1, 2), k.transpose(1, 2), dropout, state));
  return {g.q, g.k, g.v};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt> efficient_forward(
    const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& bias, const OptTensor& starts_q,
    const OptTensor& starts_k, std::optional<c10::SymInt> longest_q, std::optional<c10::SymInt> longest_k,
    double dropout, int64_t mask, bool wants_sums, std::optional<double> scale, const OptTensor& lengths,
    std::optional<int64_t> window) {
  const auto type = q.scalar_type();
  TORCH_CHECK(type == at::kFloat || type == at::kHalf || type == at::kBFloat16, "Only fp32, half & bf16 supported!");
  check_absent("lengths or a window", lengths, window);
  // The memory-efficient kernel takes packed sequences as a batch of one.
  auto a = sequences_forward(q, k, v, bias, Sequences(q, starts_q, starts_k), dropout, static_cast<Mask>(mask), scale);
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
  check_absent("a window", window);
  const Sequences all(q, starts_q, starts_k);
  auto g = sequences_backward(
      grad, q, k, v, bias, out, all.packed ? lse.squeeze(0) : lse.slice(-1, 0, q.size(1)), all, static_cast<Mask>(mask),
      scale, redraw_mask(q.transpose(1, 2), k.transpose(1, 2), dropout, seed, offset));
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
  }
  registrar.impl_where_known("_flash_attention_forward", TORCH_FN(flash_forward));
  registrar.impl_where_known("_flash_attention_forward", TORCH_FN(paged_flash_forward));
  registrar.impl_where_known("_flash_attention_backward", TORCH_FN(flash_backward));
  registrar.impl_where_known("_efficient_attention_forward", TORCH_FN(efficient_forward));
  registrar.impl_where_known("_efficient_attention_backward", TORCH_FN(efficient_backward));
}

}  // namespace hostdevice
