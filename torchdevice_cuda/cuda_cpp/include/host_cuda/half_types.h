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

#define HOST_CUDA_PAIR_OPERATOR(type, pair, sign)                        \
  template <class T, std::enable_if_t<std::is_same_v<T, pair>, int> = 0> \
  static inline pair operator sign(const T& a, const T& b) {             \
    return {a.x sign b.x, a.y sign b.y};                                 \
  }                                                                      \
  static inline pair& operator sign## = (pair & a, const pair& b) {      \
    return a = a sign b;                                                 \
  }
#define HOST_CUDA_PAIR_COMPARISON(type, pair, sign)                      \
  template <class T, std::enable_if_t<std::is_same_v<T, pair>, int> = 0> \
  static inline bool operator sign(const T& a, const T& b) {             \
    return a.x sign b.x && a.y sign b.y;                                 \
  }
// Of both numbers; a comparison holds where it holds for both. Templates: a program may have operators of its own.
#define HOST_CUDA_PAIR_OPERATORS(type, pair)                             \
  HOST_CUDA_PAIR_OPERATOR(type, pair, +)                                 \
  HOST_CUDA_PAIR_OPERATOR(type, pair, -)                                 \
  HOST_CUDA_PAIR_OPERATOR(type, pair, *)                                 \
  HOST_CUDA_PAIR_OPERATOR(type, pair, /)                                 \
  HOST_CUDA_PAIR_COMPARISON(type, pair, ==)                              \
  HOST_CUDA_PAIR_COMPARISON(type, pair, <)                               \
  HOST_CUDA_PAIR_COMPARISON(type, pair, >)                               \
  HOST_CUDA_PAIR_COMPARISON(type, pair, <=)                              \
  HOST_CUDA_PAIR_COMPARISON(type, pair, >=)                              \
  template <class T, std::enable_if_t<std::is_same_v<T, pair>, int> = 0> \
  static inline bool operator!=(const T& a, const T& b) {                \
    return a.x != b.x || a.y != b.y;                                     \
  }                                                                      \
  template <class T, std::enable_if_t<std::is_same_v<T, pair>, int> = 0> \
  static inline pair operator-(const T& a) {                             \
    return {-a.x, -a.y};                                                 \
  }                                                                      \
  template <class T, std::enable_if_t<std::is_same_v<T, pair>, int> = 0> \
  static inline pair operator+(const T& a) {                             \
    return a;                                                            \
  }                                                                      \
  static inline pair& operator++(pair& a) {                              \
    return a = {a.x + type(1), a.y + type(1)};                           \
  }                                                                      \
  static inline pair& operator--(pair& a) {                              \
    return a = {a.x - type(1), a.y - type(1)};                           \
  }

// The type, its pair, their operators and what both kinds of 16 bits have functions for.
// Operators are of these types alone, as PyTorch's flags for nvcc have it: its own numbers convert to them, and have
// theirs.
#define HOST_CUDA_NARROW(type, pair, to_bits, to_value, torchs)              \
  struct type##_raw {                                                        \
    unsigned short x;                                                        \
  };                                                                         \
  struct alignas(2) type {                                                   \
    unsigned short __x;                                                      \
    type() = default;                                                        \
    type(float v) : __x(host_cuda::to_bits(v)) {}                            \
    type(double v) : type(static_cast<float>(v)) {}                          \
    type(int v) : type(static_cast<float>(v)) {}                             \
    type(unsigned v) : type(static_cast<float>(v)) {}                        \
    type(long v) : type(static_cast<float>(v)) {}                            \
    type(unsigned long v) : type(static_cast<float>(v)) {}                   \
    type(long long v) : type(static_cast<float>(v)) {}                       \
    type(unsigned long long v) : type(static_cast<float>(v)) {}              \
    type(const type##_raw& v) : __x(v.x) {}                                  \
    template <class T, std::enable_if_t<std::is_same_v<T, torchs>, int> = 0> \
    type(const T& v) : __x(v.x) {}                                           \
    template <class T, std::enable_if_t<std::is_same_v<T, torchs>, int> = 0> \
    operator T() const {                                                     \
      return T(__x, T::from_bits());                                         \
    }                                                                        \
    operator float() const {                                                 \
      return host_cuda::to_value(__x);                                       \
    }                                                                        \
    operator type##_raw() const {                                            \
      return {__x};                                                          \
    }                                                                        \
    type& operator+=(type o) {                                               \
      return *this = type(float(*this) + float(o));                          \
    }                                                                        \
    type& operator-=(type o) {                                               \
      return *this = type(float(*this) - float(o));                          \
    }                                                                        \
    type& operator*=(type o) {                                               \
      return *this = type(float(*this) * float(o));                          \
    }                                                                        \
    type& operator/=(type o) {                                               \
      return *this = type(float(*this) / float(o));                          \
    }                                                                        \
    type operator-() const {                                                 \
      return type(-float(*this));                                            \
    }                                                                        \
    type operator+() const {                                                 \
      return *this;                                                          \
    }                                                                        \
    type& operator++() {                                                     \
      return *this += type(1);                                               \
    }                                                                        \
    type& operator--() {                                                     \
      return *this -= type(1);                                               \
    }                                                                        \
    type operator++(int) {                                                   \
      const type old = *this;                                                \
      ++*this;                                                               \
      return old;                                                            \
    }                                                                        \
    type operator--(int) {                                                   \
      const type old = *this;                                                \
      --*this;                                                               \
      return old;                                                            \
    }                                                                        \
  };                                                                         \
  struct alignas(4) pair##_raw {                                             \
    unsigned short x, y;                                                     \
  };                                                                         \
  struct alignas(4) pair {                                                   \
    type x, y;                                                               \
    pair() = default;                                                        \
    pair(type a, type b) : x(a), y(b) {}                                     \
    pair(const pair##_raw& v) : x(type##_raw{v.x}), y(type##_raw{v.y}) {}    \
    operator pair##_raw() const {                                            \
      return {x.__x, y.__x};                                                 \
    }                                                                        \
  };                                                                         \
  template <class T, std::enable_if_t<std::is_same_v<T, type>, int> = 0>     \
  static inline type operator+(T a, T b) {                                   \
    return type(float(a) + float(b));                                        \
  }                                                                          \
  template <class T, std::enable_if_t<std::is_same_v<T, type>, int> = 0>     \
  static inline type operator-(T a, T b) {                                   \
    return type(float(a) - float(b));                                        \
  }                                                                          \
  template <class T, std::enable_if_t<std::is_same_v<T, type>, int> = 0>     \
  static inline type operator*(T a, T b) {                                   \
    return type(float(a) * float(b));                                        \
  }                                                                          \
  template <class T, std::enable_if_t<std::is_same_v<T, type>, int> = 0>     \
  static inline type operator/(T a, T b) {                                   \
    return type(float(a) / float(b));                                        \
  }                                                                          \
  template <class T, std::enable_if_t<std::is_same_v<T, type>, int> = 0>     \
  static inline bool operator<(T a, T b) {                                   \
    return float(a) < float(b);                                              \
  }                                                                          \
  template <class T, std::enable_if_t<std::is_same_v<T, type>, int> = 0>     \
  static inline bool operator>(T a, T b) {                                   \
    return float(a) > float(b);                                              \
  }                                                                          \
  template <class T, std::enable_if_t<std::is_same_v<T, type>, int> = 0>     \
  static inline bool operator<=(T a, T b) {                                  \
    return float(a) <= float(b);                                             \
  }                                                                          \
  template <class T, std::enable_if_t<std::is_same_v<T, type>, int> = 0>     \
  static inline bool operator>=(T a, T b) {                                  \
    return float(a) >= float(b);                                             \
  }                                                                          \
  template <class T, std::enable_if_t<std::is_same_v<T, type>, int> = 0>     \
  static inline bool operator==(T a, T b) {                                  \
    return float(a) == float(b);                                             \
  }                                                                          \
  template <class T, std::enable_if_t<std::is_same_v<T, type>, int> = 0>     \
  static inline bool operator!=(T a, T b) {                                  \
    return float(a) != float(b);                                             \
  }                                                                          \
  HOST_CUDA_PAIR_OPERATORS(type, pair)
