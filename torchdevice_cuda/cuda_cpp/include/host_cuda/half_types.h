// A number of 16 bits that computes in float and is rounded after every operation, as a GPU's is.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda_runtime.h"

namespace c10 {
struct Half;
struct BFloat16;
}  // namespace c10

#pragma GCC visibility push(hidden)
namespace host_cuda {

inline uint32_t word_of(float x) {
  uint32_t w;
  std::memcpy(&w, &x, sizeof w);
  return w;
}
inline float float_of(uint32_t w) {
  float x;
  std::memcpy(&x, &w, sizeof x);
  return x;
}

#if defined(__F16C__)
typedef float Floats __attribute__((vector_size(16)));
typedef short Shorts __attribute__((vector_size(16)));
#endif
// To the nearest, ties to even.
inline uint16_t half_bits(float x) {
#if defined(__F16C__)
  return static_cast<uint16_t>(__builtin_ia32_vcvtps2ph(Floats{x, 0, 0, 0}, 0)[0]);
#else
  const uint32_t w = word_of(x), sign = w >> 16 & 0x8000, magnitude = w & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7fff);
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);
  if (magnitude < 0x38800000) {  // below the smallest normal number: units of 2^-24
    const float units = float_of(magnitude) * 16777216.0f;
    return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::nearbyint(units)));
  }
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000) >> 13));
#endif
}
inline float half_value(uint16_t bits) {
#if defined(__F16C__)
  return __builtin_ia32_vcvtph2ps(Shorts{static_cast<short>(bits), 0, 0, 0, 0, 0, 0, 0})[0];
#else
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = bits >> 10 & 31, rest = bits & 0x3ff;
  if (exponent == 31) return float_of(sign | 0x7f800000 | rest << 13);
  if (exponent == 0) return (sign ? -1.0f : 1.0f) * static_cast<float>(rest) / 16777216.0f;
  return float_of(sign | (exponent + 112) << 23 | rest << 13);
#endif
}
inline uint16_t bfloat_bits(float x) {
  const uint32_t w = word_of(x);
  if ((w & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return static_cast<uint16_t>((w + 0x7fff + (w >> 16 & 1)) >> 16);
}
inline float bfloat_value(uint16_t bits) {
  return float_of(static_cast<uint32_t>(bits) << 16);
}

}  // namespace host_cuda
#pragma GCC visibility pop

#define HOST_CUDA_BOTH(name, type, pair, expression) \
  static inline type name(type a, type b) {          \
    return expression;                               \
  }                                                  \
  static inline pair name##2(pair a, pair b) {       \
    return {name(a.x, b.x), name(a.y, b.y)};         \
  }
#define HOST_CUDA_FUNCTION(name, type, pair) \
  static inline type h##name(type a) {       \
    return type(std::name(float(a)));        \
  }                                          \
  static inline pair h2##name(pair a) {      \
    return {h##name(a.x), h##name(a.y)};     \
  }

// The type, its pair, their operators and what both kinds of 16 bits have functions for.
// Operators are of these types alone, as PyTorch's flags for nvcc have it: its own numbers convert to them, and have
// theirs.
#define HOST_CUDA_NARROW(type, pair, to_bits, to_value, torchs)                                              \
  struct type##_raw {                                                                                        \
    unsigned short x;                                                                                        \
  };                                                                                                         \
  struct alignas(2) type {                                                                                   \
    unsigned short __x;                                                                                      \
    type() = default;                                                                                        \
    type(float v) : __x(host_cuda::to_bits(v)) {}                                                            \
    type(double v) : type(static_cast<float>(v)) {}                                                          \
    type(int v) : type(static_cast<float>(v)) {}                                                             \
    type(unsigned v) : type(static_cast<float>(v)) {}                                                        \
    type(long v) : type(static_cast<float>(v)) {}                                                            \
    type(unsigned long v) : type(static_cast<float>(v)) {}                                                   \
    type(long long v) : type(static_cast<float>(v)) {}                                                       \
    type(unsigned long long v) : type(static_cast<float>(v)) {}                                              \
    type(const type##_raw& v) : __x(v.x) {}                                                                  \
    template <class T, std::enable_if_t<std::is_same_v<T, torchs>, int> = 0>                                 \
    type(const T& v) : __x(v.x) {}                                                                           \
    template <class T, std::enable_if_t<std::is_same_v<T, torchs>, int> = 0>                                 \
    operator T() const {                                                                                     \
      return T(__x, T::from_bits());                                                                         \
    }                                                                                                        \
    operator float() const {                                                                                 \
      return host_cuda::to_value(__x);                                                                       \
    }                                                                                                        \
    operator type##_raw() const {                                                                            \
      return {__x};                                                                                          \
    }                                                                                                        \
    type& operator+=(type o) {                                                                               \
      return *this = type(float(*this) + float(o));                                                          \
    }                                                                                                        \
    type& operator-=(type o) {                                                                               \
      return *this = type(float(*this) - float(o));                                                          \
    }                                                                                                        \
    type& operator*=(type o) {                                                                               \
      return *this = type(float(*this) * float(o));                                                          \
    }                                                                                                        \
    type& operator/=(type o) {                                                                               \
      return *this = type(float(*this) / float(o));                                                          \
    }                                                                                                        \
    type operator-() const {                                                                                 \
      return type(-float(*this));                                                                            \
    }                                                                                                        \
  };                                                                                                         \
  struct alignas(4) pair {                                                                                   \
    type x, y;                                                                                               \
    pair() = default;                                                                                        \
    pair(type a, type b) : x(a), y(b) {}                                                                     \
  };                                                                                                         \
  template <class T, std::enable_if_t<std::is_same_v<T, type>, int> = 0>                                     \
  static inline type operator+(T a, T b) {                                                                   \
    return type(float(a) + float(b));                                                                        \
  }                                                                                                          \
  template <class T, std::enable_if_t<std::is_same_v<T, type>, int> = 0>                                     \
  static inline type operator-(T a, T b) {                                                                   \
    return type(float(a) - float(b));                                                                        \
  }                                                                                                          \
  template <class T, std::enable_if_t<std::is_same_v<T, type>, int> = 0>                                     \
  static inline type operator*(T a, T b) {                                                                   \
    return type(float(a) * float(b));                                                                        \
  }                                                                                                          \
  template <class T, std::enable_if_t<std::is_same_v<T, type>, int> = 0>                                     \
  static inline type operator/(T a, T b) {                                                                   \
    return type(float(a) / float(b));                                                                        \
  }                                                                                                          \
  template <class T, std::enable_if_t<std::is_same_v<T, type>, int> = 0>                                     \
  static inline bool operator<(T a, T b) {                                                                   \
    return float(a) < float(b);                                                                              \
  }                                                                                                          \
  template <class T, std::enable_if_t<std::is_same_v<T, type>, int> = 0>                                     \
  static inline bool operator>(T a, T b) {                                                                   \
    return float(a) > float(b);                                                                              \
  }                                                                                                          \
  template <class T, std::enable_if_t<std::is_same_v<T, type>, int> = 0>                                     \
  static inline bool operator<=(T a, T b) {                                                                  \
    return float(a) <= float(b);                                                                             \
  }                                                                                                          \
  template <class T, std::enable_if_t<std::is_same_v<T, type>, int> = 0>                                     \
  static inline bool operator>=(T a, T b) {                                                                  \
    return float(a) >= float(b);                                                                             \
  }                                                                                                          \
  template <class T, std::enable_if_t<std::is_same_v<T, type>, int> = 0>                                     \
  static inline bool operator==(T a, T b) {                                                                  \
    return float(a) == float(b);                                                                             \
  }                                                                                                          \
  template <class T, std::enable_if_t<std::is_same_v<T, type>, int> = 0>                                     \
  static inline bool operator!=(T a, T b) {                                                                  \
    return float(a) != float(b);                                                                             \
  }                                                                                                          \
  static inline pair operator+(pair a, pair b) {                                                             \
    return {a.x + b.x, a.y + b.y};                                                                           \
  }                                                                                                          \
  static inline pair operator-(pair a, pair b) {                                                             \
    return {a.x - b.x, a.y - b.y};                                                                           \
  }                                                                                                          \
  static inline pair operator*(pair a, pair b) {                                                             \
    return {a.x * b.x, a.y * b.y};                                                                           \
  }                                                                                                          \
  static inline pair operator/(pair a, pair b) {                                                             \
    return {a.x / b.x, a.y / b.y};                                                                           \
  }                                                                                                          \
  HOST_CUDA_BOTH(__hadd, type, pair, a + b)                                                                  \
  HOST_CUDA_BOTH(__hsub, type, pair, a - b)                                                                  \
  HOST_CUDA_BOTH(__hmul, type, pair, a* b)                                                                   \
  HOST_CUDA_BOTH(__hmax, type, pair, (a < b || a != a ? b : a))                                              \
  HOST_CUDA_BOTH(__hmin, type, pair, (b < a || a != a ? b : a))                                              \
  static inline type __hdiv(type a, type b) {                                                                \
    return a / b;                                                                                            \
  }                                                                                                          \
  static inline pair __h2div(pair a, pair b) {                                                               \
    return a / b;                                                                                            \
  }                                                                                                          \
  static inline type __hneg(type a) {                                                                        \
    return -a;                                                                                               \
  }                                                                                                          \
  static inline pair __hneg2(pair a) {                                                                       \
    return {-a.x, -a.y};                                                                                     \
  }                                                                                                          \
  static inline type __habs(type a) {                                                                        \
    return type(std::fabs(float(a)));                                                                        \
  }                                                                                                          \
  static inline pair __habs2(pair a) {                                                                       \
    return {__habs(a.x), __habs(a.y)};                                                                       \
  }                                                                                                          \
  /* The product is exact in double, and so is the sum's rounding to float's neighbour of the right side. */ \
  static inline type __hfma(type a, type b, type c) {                                                        \
    return type(static_cast<float>(double(float(a)) * double(float(b)) + double(float(c))));                 \
  }                                                                                                          \
  static inline pair __hfma2(pair a, pair b, pair c) {                                                       \
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};                                                   \
  }                                                                                                          \
  static inline bool __heq(type a, type b) {                                                                 \
    return a == b;                                                                                           \
  }                                                                                                          \
  static inline bool __hne(type a, type b) {                                                                 \
    return a != b;                                                                                           \
  }                                                                                                          \
  static inline bool __hlt(type a, type b) {                                                                 \
    return a < b;                                                                                            \
  }                                                                                                          \
  static inline bool __hle(type a, type b) {                                                                 \
    return a <= b;                                                                                           \
  }                                                                                                          \
  static inline bool __hgt(type a, type b) {                                                                 \
    return a > b;                                                                                            \
  }                                                                                                          \
  static inline bool __hge(type a, type b) {                                                                 \
    return a >= b;                                                                                           \
  }                                                                                                          \
  static inline bool __hisnan(type a) {                                                                      \
    return a != a;                                                                                           \
  }                                                                                                          \
  HOST_CUDA_FUNCTION(exp, type, pair)                                                                        \
  HOST_CUDA_FUNCTION(log, type, pair)                                                                        \
  HOST_CUDA_FUNCTION(sqrt, type, pair)                                                                       \
  HOST_CUDA_FUNCTION(sin, type, pair)                                                                        \
  HOST_CUDA_FUNCTION(cos, type, pair)                                                                        \
  HOST_CUDA_FUNCTION(ceil, type, pair)                                                                       \
  HOST_CUDA_FUNCTION(floor, type, pair)                                                                      \
  HOST_CUDA_FUNCTION(trunc, type, pair)                                                                      \
  static inline type hrsqrt(type a) {                                                                        \
    return type(1.0f / std::sqrt(float(a)));                                                                 \
  }                                                                                                          \
  static inline type hrcp(type a) {                                                                          \
    return type(1.0f / float(a));                                                                            \
  }
