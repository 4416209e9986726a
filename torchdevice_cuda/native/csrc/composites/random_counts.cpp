// Distributions sampled by rejection: a thread reads as many words as it needs, one at a time.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Distributions.h>
#include <ATen/ops/empty.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <type_traits>

#include "compat.h"
#include "operators/assertions.h"
#include "operators/random.h"
#include "operators/random_launch.h"
#include "operators/registration.h"

namespace hostdevice {
namespace {

using at::Tensor;

// The grain in elements: rejection sampling takes about 50 ns per element.
constexpr int64_t kRejecting = 4096;

// Call f(words, value of `given`) for each element, which has a thread of its own.
template <class F>
Tensor map_elements(const char* kernel, const Tensor& given, const Philox& from, const F& f) {
  Tensor out = at::empty(given.sizes(), given.options());
  const Tensor in = given.contiguous();
  for_floating(kernel, given.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const T* values = in.const_data_ptr<T>();
    T* results = out.mutable_data_ptr<T>();
    in_parallel(in.numel(), kRejecting, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        Words words(from, static_cast<uint64_t>(i));
        results[i] = f(words, values[i]);
      }
    });
  });
  return out;
}

// ---- poisson -------------------------------------------------------------------------------------------------------

// For rates from 64 to 4000, between the multiplication method and the normal approximation: invert an approximation of
// the incomplete gamma function, then accept or reject the result.
struct GammaApproximation {
  explicit GammaApproximation(float rate) : rate(rate) {
    alpha = 1.43248035F / std::sqrt(rate - 0.12400979F) + 0.00025361F;
    beta = 0.21096735F / std::sqrt(rate - 1.97381164F) + 0.94201734F;
  }
  float below(float x) const {
    const float t = 1 + std::exp(alpha * (rate - x) - beta);
    return 1 / (t * t);
  }
  float inverse(float y) const {
    return -(beta + std::log(1 / std::sqrt(y) - 1)) / alpha + rate;
  }
  float rate, alpha, beta;
};

uint32_t poisson_of(Words& words, double rate) {
  if (rate < 64) {
    uint32_t count = 0;
    for (float product = std::exp(static_cast<float>(rate)) * words.unit(); product > 1; product *= words.unit())
      count++;
    return count;
  }
  if (rate > 4000) return static_cast<uint32_t>(std::sqrt(rate) * words.normal_double() + rate + 0.5);
  const GammaApproximation gamma(static_cast<float>(rate));
  const float logarithm_of_rate = std::log(gamma.rate);
  for (;;) {
    const float x = std::floor(gamma.inverse(words.unit()));
    const float bound = (gamma.below(x + 1) - gamma.below(x)) * 1.3F, drawn = words.unit() * bound;
    const float chance =
        std::exp(-gamma.rate + x * logarithm_of_rate - static_cast<float>(std::lgamma(static_cast<double>(x) + 1)));
    if (drawn < chance && bound >= 1e-20F) return static_cast<uint32_t>(x);
  }
}

Tensor poisson(const Tensor& rates, OptGenerator generator) {
  const Philox from = begin_draw(generator, rates.device(), 20);
  std::atomic<bool> wrong{false};
  Tensor drawn = map_elements("poisson_cuda", rates, from, [&](Words& words, auto rate) {
    if (!(static_cast<double>(rate) >= 0)) wrong.store(true, std::memory_order_relaxed);
    return static_cast<decltype(rate)>(static_cast<float>(poisson_of(words, static_cast<double>(rate))));
  });
  if (wrong)
    assert_element(
        rates.device().index(), "/pytorch/aten/src/ATen/native/cuda/Distributions.cu:50: operator()",
        "lambda >= 0 && \"invalid Poisson rate, expected rate to be non-negative\"", "poisson: a rate is below 0");
  return drawn;
}

// ---- gamma ---------------------------------------------------------------------------------------------------------

Tensor gamma(const Tensor& shapes, OptGenerator generator) {
  const Philox from = begin_draw(generator, shapes.device(), 10);
  return map_elements("gamma_cuda", shapes, from, [](Words& words, auto shape) {
    using T = decltype(shape);
    const auto draw_unit = [&words] { return words.unit(); };
    const auto draw_normal = [&words] { return words.normal(); };
    BaseSampler<Wide<T>, decltype(draw_unit)> unit(draw_unit);
    BaseSampler<Wide<T>, decltype(draw_normal)> normal(draw_normal);
    const T drawn = sample_gamma<T, Wide<T>>(shape, unit, normal);
    return std::max(drawn, std::numeric_limits<T>::min());
  });
}

Tensor dirichlet(const Tensor& shapes, OptGenerator generator) {
  const Tensor drawn = gamma(shapes, std::move(generator));
  const Tensor parts = drawn / drawn.sum(-1, true);
  for_floating("dirichlet", shapes.scalar_type(), [&](auto type) {
    using T = decltype(type);
    parts.clamp_(
        static_cast<double>(std::numeric_limits<T>::min()),
        static_cast<double>(static_cast<T>(1 - std::numeric_limits<T>::epsilon())));
  });
  return parts;
}

// ---- binomial ------------------------------------------------------------------------------------------------------

// A thread computes several elements, which are a block's number of threads apart, and continues its sequence of words.
Tensor binomial(const Tensor& counts, const Tensor& chances, OptGenerator generator) {
  constexpr int64_t threads = 128, work = threads * kElementsOfThread;
  const Philox from = begin_draw(generator, counts.device(), 42);
  Tensor out = at::empty(counts.sizes(), counts.options());
  const Tensor many = counts.contiguous(), often = chances.expand(counts.sizes()).contiguous();
  const int64_t numel = counts.numel();
  for_floating("binomial_cuda", counts.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const T *count = many.const_data_ptr<T>(), *chance = often.const_data_ptr<T>();
    T* results = out.mutable_data_ptr<T>();
    in_parallel((numel + work - 1) / work * threads, kRejecting, [&](int64_t begin, int64_t end) {
      for (int64_t thread = begin; thread < end; thread++) {
        Words words(from, static_cast<uint64_t>(thread));
        // 24 bits: a number in [0, 1).
        const auto draw_unit = [&words] { return static_cast<float>(words.next() & 0xFFFFFF) * 0x1p-24F; };
        BaseSampler<Wide<T>, decltype(draw_unit)> unit(draw_unit);
        const int64_t first = thread / threads * work + thread % threads;
        for (int64_t i = first; i < std::min(first + work, numel); i += threads)
          results[i] = sample_binomial<T, Wide<T>>(count[i], chance[i], unit);
      }
    });
  });
  return out;
}

}  // namespace

void register_counts(Registrar& registrar) {
  registrar.impl("poisson", TORCH_FN(poisson));
  registrar.impl("_standard_gamma", TORCH_FN(gamma));
  registrar.impl("_sample_dirichlet", TORCH_FN(dirichlet));
  registrar.impl("binomial", TORCH_FN(binomial));
}

}  // namespace hostdevice
