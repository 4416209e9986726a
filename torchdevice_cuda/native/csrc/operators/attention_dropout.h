// What CUDA's fused attention drops of its probabilities, and where it keeps from where that was drawn, so that the
// gradient can draw it again.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>

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

// Where the memory-efficient kernel drew from: two numbers of the host's.
inline at::Tensor number(int64_t value) {
  return at::scalar_tensor(value, at::dtype(at::kLong));
}
inline Dropped drawn_again(
    const at::Tensor& q, const at::Tensor& k, double p, const at::Tensor& seed, const at::Tensor& offset) {
  if (p == 0) return {};
  return {attention_mask(q, k.size(-2), p, seed.item<int64_t>(), offset.item<int64_t>()), p};
}

// The flash kernel keeps both in one tensor. It draws a word for each of a warp's threads, of each head.
struct FlashState {
  static constexpr int64_t kWarp = 32;
  static std::optional<int64_t> words(const at::Tensor& q) {
    return q.size(0) * q.size(1) * kWarp;
  }
  FlashState(const AttentionMask& drawn, const at::Tensor& like)
      : both(at::tensor({drawn.seed, drawn.offset}, at::dtype(at::kLong)).to(at::kUInt64).to(like.device())),
        unused(at::empty({}, like.options().dtype(at::kUInt64))) {}
  at::Tensor both, unused;
};
inline Dropped drawn_again(const at::Tensor& q, const at::Tensor& k, double p, const at::Tensor& both) {
  if (p == 0) return {};
  const at::Tensor numbers = both.cpu().to(at::kLong);
  return drawn_again(q, k, p, numbers[0], numbers[1]);
}

}  // namespace hostdevice
