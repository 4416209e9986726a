// Quantization and dequantization as in CUDA's kernels: they divide by the scale, where the CPU multiplies.
#include "quantized/quantizing.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "operators/boxed.h"

namespace hostdevice {
namespace {

using at::Tensor;

// Grain size, in elements.
constexpr int64_t kGrain = 32768;

template <class... A>
Tensor compute_on_cpu(const char* name, const char* overload, c10::DispatchKey key, const A&... arguments) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  torch::jit::Stack stack;
  (stack.emplace_back(arguments), ...);
  run_on_cpu(op, key, &stack);
  return std::move(stack.back()).toTensor();
}

// The number of channels (1 if per tensor), and the number of consecutive elements of a channel.
struct Channels {
  Tensor scales, zeros;
  int64_t count, inner;
};
// None where the CPU computes as CUDA does: elements smaller than a byte, and zero points that are not integers.
std::optional<Channels> channels_of(const Tensor& q) {
  const auto type = q.scalar_type();
  if (type != at::kQInt8 && type != at::kQUInt8 && type != at::kQInt32) return std::nullopt;
  if (!q.is_non_overlapping_and_dense()) return std::nullopt;
  const auto scheme = q.qscheme();
  if (scheme == at::kPerTensorAffine) return Channels{{}, {}, 1, std::max<int64_t>(q.numel(), 1)};
  if (scheme != at::kPerChannelAffine) return std::nullopt;
  const int64_t axis = q.q_per_channel_axis();
  return Channels{
      q.q_per_channel_scales().to(at::kDouble).contiguous(), q.q_per_channel_zero_points().to(at::kLong).contiguous(),
      q.size(axis), std::max<int64_t>(q.stride(axis), 1)};
}

// Call f(first, end, scale, zero point) for runs of elements of one channel.
template <class F>
void each_run(const Tensor& q, const Channels& channels, F f) {
  const bool one = !channels.scales.defined();
  const double scale = one ? q.q_scale() : 0;
  const int64_t zero = one ? q.q_zero_point() : 0;
  const auto* scales = one ? nullptr : channels.scales.const_data_ptr<double>();
  const auto* zeros = one ? nullptr : channels.zeros.const_data_ptr<int64_t>();
  const int64_t inner = channels.inner;
  at::parallel_for(0, q.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end;) {
      const int64_t run = i / inner, next = std::min(end, (run + 1) * inner);
      const int64_t channel = run % channels.count;
      f(i, next, one ? scale : scales[channel], one ? zero : zeros[channel]);
      i = next;
    }
  });
}

// Compute the CPU's result again, as CUDA's kernels do.
Tensor requantize(const Tensor& self, Tensor q) {
  const auto channels = channels_of(q);
  if (!channels) return q;
  const bool same = self.strides() == q.strides();
  const Tensor given = same ? self : at::empty_strided(q.sizes(), q.strides(), self.options()).copy_(self);
  const auto* from = given.const_data_ptr<float>();
  AT_DISPATCH_QINT_TYPES(q.scalar_type(), "quantize_tensor_cuda", [&] {
    auto* to = reinterpret_cast<underlying_t*>(q.data_ptr<scalar_t>());
    constexpr double kLeast = std::numeric_limits<underlying_t>::min(),
                     kMost = std::numeric_limits<underlying_t>::max();
    each_run(q, *channels, [&](int64_t i, int64_t end, double scale, int64_t zero) {
      for (; i < end; i++) {
        const double value = std::nearbyint(static_cast<double>(from[i]) / scale) + static_cast<double>(zero);
        // NaN becomes the minimum.
        to[i] = static_cast<underlying_t>(value >= kLeast ? std::min(value, kMost) : kLeast);
      }
    });
  });
  return q;
}

Tensor quantize_per_tensor(const Tensor& self, double scale, int64_t zero, at::ScalarType type) {
  return requantize(
      self, compute_on_cpu("aten::quantize_per_tensor", "", c10::DispatchKey::CPU, self, scale, zero, type));
}
Tensor quantize_per_tensor_of(const Tensor& self, const Tensor& scale, const Tensor& zero, at::ScalarType type) {
  return requantize(
      self,
      compute_on_cpu("aten::quantize_per_tensor", "tensor_qparams", c10::DispatchKey::CPU, self, scale, zero, type));
}
Tensor quantize_per_tensor_dynamic(const Tensor& self, at::ScalarType type, bool reduce) {
  return requantize(
      self, compute_on_cpu("aten::quantize_per_tensor_dynamic", "", c10::DispatchKey::CPU, self, type, reduce));
}
Tensor quantize_per_channel(
    const Tensor& self, const Tensor& scales, const Tensor& zeros, int64_t axis, at::ScalarType type) {
  return requantize(
      self, compute_on_cpu("aten::quantize_per_channel", "", c10::DispatchKey::CPU, self, scales, zeros, axis, type));
}

Tensor dequantize(const Tensor& self) {
  Tensor made = compute_on_cpu("aten::dequantize", "self", c10::DispatchKey::QuantizedCPU, self);
  const Tensor q = self.strides() == made.strides() ? self : self.contiguous(made.suggest_memory_format());
  const auto channels = channels_of(q);
  if (!channels || q.strides() != made.strides()) return made;
  auto* to = made.mutable_data_ptr<float>();
  const bool one = !channels->scales.defined();
  AT_DISPATCH_QINT_TYPES(q.scalar_type(), "dequantize_tensor_cuda", [&] {
    const auto* from = reinterpret_cast<const underlying_t*>(q.data_ptr<scalar_t>());
    each_run(q, *channels, [&](int64_t i, int64_t end, double scale, int64_t zero) {
      // The per-tensor kernel rounds before it subtracts.
      for (; i < end; i++)
        to[i] = static_cast<float>(
            scale *
            (one ? static_cast<float>(from[i]) - static_cast<float>(zero) : static_cast<float>(from[i] - zero)));
    });
  });
  return made;
}

}  // namespace

void register_quantizing(Registrar& registrar, Registrar& quantized) {
  registrar.impl_where_known("quantize_per_tensor", TORCH_FN(quantize_per_tensor));
  registrar.impl_where_known("quantize_per_tensor.tensor_qparams", TORCH_FN(quantize_per_tensor_of));
  registrar.impl_where_known("quantize_per_tensor_dynamic", TORCH_FN(quantize_per_tensor_dynamic));
  registrar.impl_where_known("quantize_per_channel", TORCH_FN(quantize_per_channel));
  quantized.impl_where_known("dequantize.self", TORCH_FN(dequantize));
}

}  // namespace hostdevice
