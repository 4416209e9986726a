// Sums, differences, products and quotients of two small contiguous tensors of one type and shape, over the device's
// memory itself. Creating aliases and setting up PyTorch's loops take longer than the loop. Each element is one
// operation, so the bits are those of PyTorch's vectorized kernels.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/div_ops.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/sub_ops.h>

#include "runtime/allocator.h"
#include "runtime/device.h"

namespace hostdevice {

// In elements. For longer tensors PyTorch's kernels use wider registers and several threads.
constexpr int64_t kLongestLoop = 4096;

// What an operator computes of two elements; `kExists` is false for all others.
template <class Op>
struct Loop {
  static constexpr bool kExists = false;
};
#define HOSTDEVICE_LOOP(op, sign)         \
  template <>                             \
  struct Loop<at::_ops::op> {             \
    static constexpr bool kExists = true; \
    template <class T>                    \
    static T combine(T a, T b) {          \
      return a sign b;                    \
    }                                     \
  };
HOSTDEVICE_LOOP(add_Tensor, +)
HOSTDEVICE_LOOP(add__Tensor, +)
HOSTDEVICE_LOOP(sub_Tensor, -)
HOSTDEVICE_LOOP(mul_Tensor, *)
HOSTDEVICE_LOOP(mul__Tensor, *)
HOSTDEVICE_LOOP(div_Tensor, /)
#undef HOSTDEVICE_LOOP

// Whether the loop takes two tensors of one device, whose types are floats.
inline bool is_loop_pair(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.numel() <= kLongestLoop && a.sizes() == b.sizes() &&
      a.is_contiguous() && b.is_contiguous();
}
// Whether they are the same memory, or none of it is.
inline bool is_same_or_apart(const at::Tensor& a, const at::Tensor& b) {
  return !a.is_alias_of(b) || a.storage_offset() == b.storage_offset();
}

template <class Op>
void run_loop_into(const at::Tensor& result, const at::Tensor& a, const at::Tensor& b) {
  const auto run = [&](auto* to, const auto* from, const auto* by) {
    const int64_t count = a.numel();
    for (int64_t i = 0; i < count; i++) to[i] = Loop<Op>::combine(from[i], by[i]);
  };
  if (a.scalar_type() == at::kFloat)
    run(result.mutable_data_ptr<float>(), a.const_data_ptr<float>(), b.const_data_ptr<float>());
  else
    run(result.mutable_data_ptr<double>(), a.const_data_ptr<double>(), b.const_data_ptr<double>());
}
template <class Op>
at::Tensor run_loop(const at::Tensor& a, const at::Tensor& b) {
  const OnDevice here(a.device().index());
  at::Tensor result(
      at::detail::empty_generic(
          a.sizes(), device_allocator(), c10::DispatchKeySet(kDense), a.scalar_type(), std::nullopt));
  run_loop_into<Op>(result, a, b);
  return result;
}

}  // namespace hostdevice
