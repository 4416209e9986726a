// Dropout in one kernel, and rrelu, which multiplies with what it draws, too.
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rrelu_with_noise_ops.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <type_traits>

#include "compat.h"
#include "operators/random.h"
#include "operators/random_launch.h"

namespace hostdevice {
namespace {

using at::Tensor;

// ---- dropout ------------------------------------------------------------------------------------------------------------

// How many neighbours in memory a thread computes; 1 where elements are numbered by their place in the tensor instead.
int64_t neighbours(const Tensor& self) {
  if (!self.is_non_overlapping_and_dense()) return 1;
  const auto item = static_cast<int64_t>(self.itemsize());
  const auto address = reinterpret_cast<uintptr_t>(self.const_data_ptr());
  int64_t size = neighbours_in_dropout(item);
  while (size > 1 && (address % static_cast<uintptr_t>(size * item) || self.numel() % size)) size /= 2;
  return size;
}

// All three have the same elements in the same places.
struct Dropout {
  const void* in;
  void *out, *mask;
  double keep;

  template <class T>
  HOSTDEVICE_INLINE void one(int64_t i, uint32_t word, Wide<T> chance, Wide<T> scale) const {
    const bool kept = unit(word) < chance;
    const auto value = static_cast<Wide<T>>(static_cast<const T*>(in)[i]);
    static_cast<T*>(out)[i] = static_cast<T>(value * static_cast<Wide<T>>(kept) * scale);
    static_cast<uint8_t*>(mask)[i] = kept;
  }

  // Elements of a thread lie as far apart as there are threads.
  template <class T>
  void spread(const Launch& launch, const Philox& from, int64_t numel) const {
    const auto chance = static_cast<Wide<T>>(keep), scale = static_cast<Wide<T>>(1.0 / chance);
    launch.each([&](int64_t step, int64_t first, int lanes) {
      Four<uint32_t> words;
      draw_words(from, static_cast<uint64_t>(step), static_cast<uint64_t>(first), lanes, words);
      for (int64_t k = 0; k < 4; k++) {
        const int64_t begin = (step * 4 + k) * launch.threads + first;
        for (int64_t i = 0; i < std::min<int64_t>(lanes, numel - begin); i++)
          one<T>(begin + i, words.of[k][i], chance, scale);
      }
    });
  }

  // Elements of a thread are kNear neighbours, and another kNear at the next step. It draws whole blocks of four.
  template <class T, int kNear>
  void near(const Launch& launch, const Philox& from, int64_t numel) const {
    constexpr int blocks = (kNear + 3) / 4, of_block = kNear < 4 ? kNear : 4;
    const auto chance = static_cast<Wide<T>>(keep), scale = static_cast<Wide<T>>(1.0 / chance);
    Launch loop = launch;
    loop.steps = (numel - 1) / (launch.threads * kNear) + 1;
    loop.each([&](int64_t step, int64_t first, int lanes) {
      const int64_t begin = (step * launch.threads + first) * kNear;
      if (begin >= numel) return;
      lanes = static_cast<int>(std::min<int64_t>(lanes, (numel - begin) / kNear));
      Four<uint32_t> words;
      for (int b = 0; b < blocks; b++) {
        draw_words(from, static_cast<uint64_t>(step * blocks + b), static_cast<uint64_t>(first), lanes, words);
        vectorised([&] {
          for (int i = 0; i < lanes; i++)
            for (int k = 0; k < of_block; k++)
              one<T>(begin + int64_t{i} * kNear + b * 4 + k, words.of[k][i], chance, scale);
        });
      }
    });
  }
};

std::tuple<Tensor, Tensor> drop(
    const Tensor& self, double keep, c10::ScalarType mask_type, const OptGenerator& generator) {
  Tensor mask = at::empty_like(self, self.options().dtype(mask_type));
  const int64_t numel = self.numel();
  if (numel == 0) return {self, mask};
  const int64_t near = neighbours(self);
  // By their places in the tensor, elements of these are in order.
  const Tensor in = near > 1 ? self : self.contiguous();
  Tensor out = at::empty_like(self);
  const bool in_order = near > 1 || out.is_contiguous();
  Tensor out_here = in_order ? out : at::empty_like(in), mask_here = in_order ? mask : at::empty_like(in, mask.options());
  const Launch launch(numel, 4);
  const Philox from = begin_draw(generator, self.device(), launch.words());
  const Dropout dropout{in.const_data_ptr(), out_here.mutable_data_ptr(), mask_here.mutable_data_ptr(), keep};
  for_floating("fused_dropout", self.scalar_type(), [&](auto type) {
    using T = decltype(type);
    if (near == 8)
      dropout.near<T, 8>(launch, from, numel);
    else if (near == 4)
      dropout.near<T, 4>(launch, from, numel);
    else if (near == 2)
      dropout.near<T, 2>(launch, from, numel);
    else
      dropout.spread<T>(launch, from, numel);
  });
  if (!in_order) {
    out.copy_(out_here);
    mask.copy_(mask_here);
  }
  return {out, mask};
}

std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p, std::optional<bool> train) {
  const auto of_bools = input.options().dtype(at::kBool);
  if (input.numel() == 0) return {input, at::empty_like(input, of_bools)};
  if (train.has_value() && !*train) return {input.clone(), at::ones_like(input, of_bools)};
  if (p == 1) return {at::zeros_like(input), at::zeros_like(input, of_bools)};
  return drop(input, 1 - p, at::kBool, std::nullopt);
}

std::tuple<Tensor, Tensor> fused_dropout(const Tensor& self, double keep, OptGenerator generator) {
  return drop(self, keep, at::kByte, generator);
}

// ---- rrelu --------------------------------------------------------------------------------------------------------------

template <class T>
void rrelu_with_noise(const Tensor& in, Tensor& noise, Tensor& out, double lower, double upper, const OptGenerator& g) {
  constexpr int per_thread = std::is_same_v<T, double> ? 2 : 4;
  const int64_t numel = in.numel();
  const Launch launch(numel, per_thread);
  const Philox from = begin_draw(g, in.device(), launch.words());
  const T* values = in.const_data_ptr<T>();
  T *slopes = noise.mutable_data_ptr<T>(), *results = out.mutable_data_ptr<T>();
  launch.each([&](int64_t step, int64_t first, int lanes) {
    Four<uint32_t> words;
    draw_words(from, static_cast<uint64_t>(step), static_cast<uint64_t>(first), lanes, words);
    for (int k = 0; k < per_thread; k++) {
      const int64_t begin = (step * per_thread + k) * launch.threads + first;
      for (int64_t i = 0; i < std::min<int64_t>(lanes, numel - begin); i++) {
        T drawn;
        if constexpr (per_thread == 2)
          drawn = unit(words.of[2 * k][i], words.of[2 * k + 1][i]);
        else
          drawn = static_cast<T>(unit(words.of[k][i]));
        const bool is_below = values[begin + i] <= T(0);
        const T slope = is_below ? static_cast<T>(static_cast<double>(drawn) * (upper - lower) + lower) : T(1);
        slopes[begin + i] = slope;
        results[begin + i] = is_below ? static_cast<T>(values[begin + i] * slope) : values[begin + i];
      }
    }
  });
}

// The noise is written. Not every version and not every form of the operator says so.
template <class R, class Self, class Noise, class... Rest>
Noise second_argument(R (*)(Self, Noise, Rest...));
template <class Op>
using NoiseOf = decltype(second_argument(static_cast<typename Op::schema*>(nullptr)));

Tensor& rrelu_into(
    const Tensor& self, const Tensor& noise, const c10::Scalar& lower, const c10::Scalar& upper, bool training,
    const OptGenerator& generator, Tensor& out) {
  at::native::resize_output(out, self.sizes());
  if (self.numel() == 0) return out;
  if (!training) return at::leaky_relu_out(out, self, (lower.toDouble() + upper.toDouble()) / 2);
  const Tensor in = self.contiguous();
  Tensor slopes = noise.contiguous(), results = out.contiguous();
  for_floating("rrelu_with_noise_out_cuda", self.scalar_type(), [&](auto type) {
    rrelu_with_noise<decltype(type)>(in, slopes, results, lower.toDouble(), upper.toDouble(), generator);
  });
  if (!out.is_contiguous()) out.copy_(results);
  return out;
}

Tensor& rrelu_out(
    const Tensor& self, NoiseOf<at::_ops::rrelu_with_noise_out> noise, const c10::Scalar& lower,
    const c10::Scalar& upper, bool training, OptGenerator generator, Tensor& out) {
  return rrelu_into(self, noise, lower, upper, training, generator, out);
}
Tensor rrelu(
    const Tensor& self, NoiseOf<at::_ops::rrelu_with_noise> noise, const c10::Scalar& lower, const c10::Scalar& upper,
    bool training, OptGenerator generator) {
  Tensor out = at::empty_like(self, at::MemoryFormat::Contiguous);
  return rrelu_into(self, noise, lower, upper, training, generator, out);
}
Tensor& rrelu_(
    Tensor& self, NoiseOf<at::_ops::rrelu_with_noise_> noise, const c10::Scalar& lower, const c10::Scalar& upper,
    bool training, OptGenerator generator) {
  return rrelu_into(self, noise, lower, upper, training, generator, self);
}

}  // namespace

void register_dropout(Registrar& registrar) {
  registrar.impl("native_dropout", TORCH_FN(native_dropout));
  registrar.impl("_fused_dropout", TORCH_FN(fused_dropout));
  registrar.impl("rrelu_with_noise", TORCH_FN(rrelu));
  registrar.impl("rrelu_with_noise_", TORCH_FN(rrelu_));
  registrar.impl("rrelu_with_noise.out", TORCH_FN(rrelu_out));
}

}  // namespace hostdevice
