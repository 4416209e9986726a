// Distributions that a kernel draws element by element. PyTorch's own functions check the arguments and call these
// kernels through its dispatch stubs, as on CUDA.
#include <ATen/core/Tensor.h>
#include <ATen/native/UnaryOps.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <limits>

#include "compat.h"
#include "operators/random.h"
#include "operators/random_launch.h"

namespace hostdevice {
namespace {

using at::TensorIteratorBase;

// ---- uniform numbers, and distributions computed from them ---------------------------------------------------------

// `f` maps a uniform float to the result, for all types except double, for which `g` does.
template <class F, class G>
void draw_from_uniform(TensorIteratorBase& iter, const OptGenerator& generator, const F& f, const G& g) {
  if (iter.dtype() == at::kDouble) {
    draw_into<2, double>(iter, generator, [&](const auto& words, int used, int lanes, auto& values) {
      for (int k = 0; k < used; k++)
        for (int i = 0; i < lanes; i++) values.of[k][i] = g(unit(words.of[2 * k][i], words.of[2 * k + 1][i]));
    });
    return;
  }
  draw_into<4, float>(iter, generator, [&](const auto& words, int used, int lanes, auto& values) {
    vectorized([&] {
      for (int k = 0; k < used; k++)
        for (int i = 0; i < lanes; i++) values.of[k][i] = f(unit(words.of[k][i]));
    });
  });
}

// cuRAND draws from (0, 1] and PyTorch from [from, to): a value that rounds to the end becomes the beginning.
template <class T>
void uniform_as(TensorIteratorBase& iter, double from_, double to_, const OptGenerator& generator) {
  const auto from = static_cast<T>(from_), to = static_cast<T>(to_);
  const auto range = static_cast<float>(static_cast<T>(to - from));
  const auto begin = static_cast<float>(from), end = static_cast<float>(to);
  draw_from_uniform(
      iter, generator,
      [=](float u) __attribute__((always_inline)) {
        const auto value = static_cast<float>(static_cast<T>(fused(u, range, begin)));
        return value == end ? begin : value;
      },
      [=](double u) {
        const double value = std::fma(u, to_ - from_, from_);
        return value == to_ ? from_ : value;
      });
}

void uniform(TensorIteratorBase& iter, double from, double to, OptGenerator generator) {
  check_floating("uniform_kernel_cuda", iter.dtype());
  if (iter.dtype() == at::kHalf)
    uniform_as<c10::Half>(iter, from, to, generator);
  else if (iter.dtype() == at::kBFloat16)
    uniform_as<c10::BFloat16>(iter, from, to, generator);
  else
    uniform_as<float>(iter, from, to, generator);
}

// cuRAND may return 1, whose logarithm is 0, but an exponential number is positive: use half of epsilon instead.
template <class T, class Log>
HOSTDEVICE_INLINE T exponential_of(T u, T factor, Log log) {
  constexpr T least = std::numeric_limits<T>::epsilon() / 2;
  return factor * (u >= T(1) - least ? -least : log(u));
}
void exponential(TensorIteratorBase& iter, double lambda, OptGenerator generator) {
  TORCH_CHECK(
      at::isFloatingType(iter.dtype()),
      "Exponential distribution is a continuous probability distribution. dtype must be a floating point but you "
      "specified ",
      iter.dtype());
  check_floating("exponential_cuda", iter.dtype());
  const float factor = -1.0F / static_cast<float>(lambda);
  const double wide_factor = -1.0 / lambda;
  draw_from_uniform(
      iter, generator,
      [=](float u) __attribute__((always_inline)) {
        return exponential_of(u, factor, [](float x) __attribute__((always_inline)) { return logarithm(x); });
      },
      [=](double u) { return exponential_of(u, wide_factor, [](double x) { return std::log(x); }); });
}

void cauchy(TensorIteratorBase& iter, double median, double sigma, OptGenerator generator) {
  check_floating("cauchy_cuda", iter.dtype());
  constexpr float least = std::numeric_limits<float>::epsilon();
  const auto middle = static_cast<float>(median), width = static_cast<float>(sigma);
  draw_from_uniform(
      iter, generator,
      [=](float u) {
        const float inside = std::min(std::max(u, least), 1 - least);
        return fused(width, std::tan(3.14159265F * (inside - 0.5F)), middle);
      },
      [=](double u) { return median + sigma * std::tan(3.14159265358979323846 * (u - 0.5)); });
}

void geometric(TensorIteratorBase& iter, double p, OptGenerator generator) {
  if (iter.dtype() == at::kBool || at::isComplexType(iter.dtype())) refuse_type("geometric_cuda", iter.dtype());
  const float against = std::log1p(-static_cast<float>(p));
  const double wide_against = std::log1p(-p);
  draw_from_uniform(
      iter, generator, [=](float u) { return std::ceil(logarithm(u) / against); },
      [=](double u) { return std::ceil(std::log(u) / wide_against); });
}

void bernoulli(const at::TensorBase& self, double p, OptGenerator generator) {
  auto iter = at::TensorIterator::borrowing_nullary_op(self);
  if (at::isComplexType(iter.dtype())) refuse_type("bernoulli_scalar_cuda_", iter.dtype());
  const auto chance = static_cast<float>(p);
  draw_from_uniform(
      iter, generator, [=](float u) __attribute__((always_inline)) { return u < chance ? 1.0F : 0.0F; },
      [=](double u) { return u < p ? 1.0 : 0.0; });
}

// ---- normal numbers ------------------------------------------------------------------------------------------------

template <class F, class G>
void draw_from_normal(TensorIteratorBase& iter, const OptGenerator& generator, const F& f, const G& g) {
  if (iter.dtype() == at::kDouble) {
    draw_into<2, double>(iter, generator, [&](const auto& words, int, int lanes, auto& values) {
      for (int i = 0; i < lanes; i++) {
        double first, second;
        normal_pair(words.of[0][i], words.of[1][i], words.of[2][i], words.of[3][i], first, second);
        values.of[0][i] = g(first);
        values.of[1][i] = g(second);
      }
    });
    return;
  }
  draw_into<4, float>(iter, generator, [&](const auto& words, int used, int lanes, auto& values) {
    vectorized([&] {
      for (int k = 0; k < used; k += 2) {
        const uint32_t *x = words.of[k], *y = words.of[k + 1];
        float *first = values.of[k], *second = values.of[k + 1];
        for (int i = 0; i < lanes; i++) normal_pair(x[i], y[i], first[i], second[i]);
      }
      for (int k = 0; k < used; k++)
        for (int i = 0; i < lanes; i++) values.of[k][i] = f(values.of[k][i]);
    });
  });
}

void normal(const at::TensorBase& self, double mean, double deviation, OptGenerator generator) {
  auto iter = at::TensorIterator::borrowing_nullary_op(self);
  check_floating("normal_kernel_cuda", iter.dtype());
  const auto middle = static_cast<float>(mean), width = static_cast<float>(deviation);
  draw_from_normal(
      iter, generator, [=](float x) __attribute__((always_inline)) { return fused(x, width, middle); },
      [=](double x) { return std::fma(x, deviation, mean); });
}

void log_normal(TensorIteratorBase& iter, double mean, double deviation, OptGenerator generator) {
  check_floating("log_normal_cuda", iter.dtype());
  const auto middle = static_cast<float>(mean), width = static_cast<float>(deviation);
  draw_from_normal(
      iter, generator, [=](float x) { return std::exp(fused(x, width, middle)); },
      [=](double x) { return std::exp(std::fma(x, deviation, mean)); });
}

// ---- integers ------------------------------------------------------------------------------------------------------

// Return the remainder of a division by `by`, which is at least 2 and at most 2^31. Exact, and faster than a division.
HOSTDEVICE_INLINE int32_t remainder(uint32_t x, double by, double inverse) {
  const double value = x, quotient = static_cast<int32_t>(value * inverse);
  const double rest = value - quotient * by, up = rest < 0 ? rest + by : rest;
  return static_cast<int32_t>(up >= by ? up - by : up);
}

// Draw integers from [base, base + range); a range of 0 means all of 2^64.
void draw_integers(
    TensorIteratorBase& iter, const OptGenerator& generator, bool of_64_bits, uint64_t range, int64_t base) {
  if (of_64_bits) {
    draw_into<2, int64_t>(iter, generator, [&](const auto& words, int used, int lanes, auto& values) {
      for (int k = 0; k < used; k++) {
        for (int i = 0; i < lanes; i++) {
          const uint64_t drawn = uint64_t{words.of[2 * k][i]} << 32 | words.of[2 * k + 1][i];
          values.of[k][i] = static_cast<int64_t>((range ? drawn % range : drawn) + static_cast<uint64_t>(base));
        }
      }
    });
    return;
  }
  const auto by = static_cast<double>(range), inverse = 1 / by;
  draw_into<4, int64_t>(iter, generator, [&](const auto& words, int used, int lanes, auto& values) {
    if (range >= 2 && range <= uint64_t{1} << 31) {
      vectorized([&] {
        for (int k = 0; k < used; k++)
          for (int i = 0; i < lanes; i++) values.of[k][i] = remainder(words.of[k][i], by, inverse) + base;
      });
      return;
    }
    for (int k = 0; k < used; k++)
      for (int i = 0; i < lanes; i++) values.of[k][i] = static_cast<int64_t>(words.of[k][i] % range) + base;
  });
}

bool takes_64_bits(c10::ScalarType type) {
  return type == at::kLong || type == at::kDouble || type == at::kFloat || type == at::kBFloat16;
}

void random_from_to(TensorIteratorBase& iter, uint64_t range, int64_t base, OptGenerator generator) {
  const auto type = iter.dtype();
  if (at::isComplexType(type)) refuse_type("random_from_to_kernel_cuda", type);
  draw_integers(
      iter, generator, range >= kFewWholeNumbers && (kEveryTypeDrawsMany || takes_64_bits(type)), range, base);
}

void random_of_64_bits(TensorIteratorBase& iter, OptGenerator generator) {
  TORCH_CHECK(
      takes_64_bits(iter.dtype()),
      "random_full_64_bits_range_kernel_cuda handles only int64, double, float and bfloat16");
  draw_integers(iter, generator, true, 0, 0);
}

// Draw from 0 up to the largest value for which the type holds all integers.
void random(TensorIteratorBase& iter, OptGenerator generator) {
  const auto type = iter.dtype();
  uint64_t range = 0;
  switch (type) {
    case at::kBool:
      range = 2;
      break;
    case at::kByte:
      range = uint64_t{1} << 8;
      break;
    case at::kChar:
      range = uint64_t{1} << 7;
      break;
    case at::kShort:
      range = uint64_t{1} << 15;
      break;
    case at::kInt:
      range = uint64_t{1} << 31;
      break;
    case at::kLong:
      range = uint64_t{1} << 63;
      break;
    case at::kHalf:
      range = (uint64_t{1} << std::numeric_limits<c10::Half>::digits) + 1;
      break;
    case at::kBFloat16:
      range = (uint64_t{1} << std::numeric_limits<c10::BFloat16>::digits) + 1;
      break;
    case at::kFloat:
      range = (uint64_t{1} << std::numeric_limits<float>::digits) + 1;
      break;
    case at::kDouble:
      range = (uint64_t{1} << std::numeric_limits<double>::digits) + 1;
      break;
    default:
      refuse_type("random_kernel_cuda", type);
  }
  draw_integers(iter, generator, type == at::kLong || type == at::kDouble, range, 0);
}

}  // namespace

void install_draws() {
  at::native::uniform_stub.set_cuda_dispatch_ptr(&uniform);
  at::native::exponential_stub.set_cuda_dispatch_ptr(&exponential);
  at::native::cauchy_stub.set_cuda_dispatch_ptr(&cauchy);
  at::native::geometric_stub.set_cuda_dispatch_ptr(&geometric);
  at::native::bernoulli_scalar_stub.set_cuda_dispatch_ptr(&bernoulli);
  at::native::normal_stub.set_cuda_dispatch_ptr(&normal);
  at::native::log_normal_stub.set_cuda_dispatch_ptr(&log_normal);
  at::native::random_from_to_stub.set_cuda_dispatch_ptr(&random_from_to);
  at::native::random_full_64_bits_range_stub.set_cuda_dispatch_ptr(&random_of_64_bits);
  at::native::random_stub.set_cuda_dispatch_ptr(&random);
}

}  // namespace hostdevice
