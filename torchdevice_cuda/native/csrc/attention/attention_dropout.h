// The dropout of CUDA's fused attention. The kernels return the generator state that they drew from, so that the
// backward pass can draw the same mask again.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <optional>

#include "operators/random.h"

namespace hostdevice {

// Drops and rescales probabilities.
struct Dropped {
  at::Tensor kept;
  double p = 0;
  at::Tensor operator()(const at::Tensor& probabilities) const {
    return kept.defined() ? probabilities * kept / (1 - p) : probabilities;
  }
};

// Return the generator state of a kernel without dropout: two zeros on the host.
inline AttentionMask make_empty_mask() {
  const auto zero = at::zeros({}, at::dtype(at::kLong));
  return {at::Tensor(), zero, zero.clone()};
}
inline Dropped redraw_mask(
    const at::Tensor& q, const at::Tensor& k, double p, const at::Tensor& seed, const at::Tensor& offset) {
  if (p == 0) return {};
  return {attention_mask(q, k.size(-2), p, seed, offset), p};
}

// The flash kernel returns both numbers in one tensor. It draws one word per thread of a warp, for each head.
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
inline Dropped redraw_mask(const at::Tensor& q, const at::Tensor& k, double p, const at::Tensor& both) {
  if (p == 0) return {};
  const at::Tensor numbers = both.view(at::kLong);
  return redraw_mask(q, k, p, numbers[0], numbers[1]);
}

}  // namespace hostdevice
