// What CUDA's fused attention drops of its probabilities, and where it keeps from where that was drawn, so that the
// gradient can draw it again.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <optional>

#include "operators/random.h"

namespace hostdevice {

// What is left of probabilities, of which some are dropped and the rest scaled.
struct Dropped {
  at::Tensor kept;
  double p = 0;
  at::Tensor operator()(const at::Tensor& probabilities) const {
    return kept.defined() ? probabilities * kept / (1 - p) : probabilities;
  }
};

// Where a kernel drew from that dropped nothing: two zeros of the host's.
inline AttentionMask nothing_drawn() {
  const auto zero = at::zeros({}, at::dtype(at::kLong));
  return {at::Tensor(), zero, zero.clone()};
}
inline Dropped drawn_again(
    const at::Tensor& q, const at::Tensor& k, double p, const at::Tensor& seed, const at::Tensor& offset) {
  if (p == 0) return {};
  return {attention_mask(q, k.size(-2), p, seed, offset), p};
}

// The flash kernel keeps both in one tensor. It draws a word for each of a warp's threads, of each head.
struct FlashState {
  static constexpr int64_t kWarp = 32;
  static std::optional<int64_t> words(const at::Tensor& q) {
    return q.size(0) * q.size(1) * kWarp;
  }
  FlashState(const AttentionMask& drawn, const at::Tensor& like)
      : both(
            drawn.kept.defined() ? at::stack({drawn.seed, drawn.offset}).to(like.device()).view(at::kUInt64)
                                 : at::zeros({2}, like.options().dtype(at::kUInt64))),
        unused(at::empty({}, like.options().dtype(at::kUInt64))) {}
  at::Tensor both, unused;
};
inline Dropped drawn_again(const at::Tensor& q, const at::Tensor& k, double p, const at::Tensor& both) {
  if (p == 0) return {};
  const at::Tensor numbers = both.view(at::kLong);
  return drawn_again(q, k, p, numbers[0], numbers[1]);
}

}  // namespace hostdevice
