// The CPU's flash kernel, for calls in which it computes the same as CUDA's fused kernels.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty_like.h>

#include "operators/composites.h"

namespace hostdevice {

inline bool cpu_attends(
    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const OptTensor& bias, double dropout) {
  const auto plain = [&](const at::Tensor& t) {
    return t.dim() == 4 && t.size(0) == q.size(0) && t.size(1) == q.size(1) && t.size(-1) == q.size(-1) &&
        t.stride(-1) == 1 && t.numel() > 0;
  };
  return dropout == 0 && plain(q) && plain(k) && plain(v) &&
      (!is_defined(bias) || (bias->dim() == 4 && bias->scalar_type() == q.scalar_type() && bias->stride(-1) == 1));
}

// Return the result with the memory layout of the queries.
inline at::Tensor copy_layout(const at::Tensor& q, const at::Tensor& result) {
  if (result.sizes() != q.sizes()) return result.contiguous();
  at::Tensor out = at::empty_like(q);
  return out.strides() == result.strides() ? result : out.copy_(result);
}

}  // namespace hostdevice
