// rrelu with random slopes.
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/rrelu_with_noise_ops.h>

#include "operators/random.h"
#include "operators/random_launch.h"
#include "operators/registration.h"

namespace hostdevice {
namespace {

using at::Tensor;

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

// The operator writes the noise, but not every version and overload declares that: take the argument's type from the
// schema.
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

void register_rrelu(Registrar& registrar) {
  registrar.impl("rrelu_with_noise", TORCH_FN(rrelu));
  registrar.impl("rrelu_with_noise_", TORCH_FN(rrelu_));
  registrar.impl("rrelu_with_noise.out", TORCH_FN(rrelu_out));
}

}  // namespace hostdevice
