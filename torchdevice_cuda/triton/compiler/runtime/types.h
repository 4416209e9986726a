// Types of elements. Formats of 16 and 8 bits are computed with as float and rounded after each operation, as a GPU
// rounds them.
#pragma once
#include <stdint.h>
#include <string.h>

#define TTC_INLINE static inline __attribute__((always_inline))
#define TTC_METHOD inline __attribute__((always_inline))
#define TTC_COLD __attribute__((noinline, cold))

template <class T, class F>
TTC_INLINE T bits_as(F value) {
  static_assert(sizeof(T) == sizeof(F), "");
  T result;
  memcpy(&result, &value, sizeof result);
  return result;
}

template <bool, class A, class B>
struct choose {
  typedef A type;
};
template <class A, class B>
struct choose<false, A, B> {
  typedef B type;
};
template <class A, class B>
struct same {
  static constexpr bool value = false;
};
template <class A>
struct same<A, A> {
  static constexpr bool value = true;
};

struct bf16 {
  uint16_t bits;
  bf16() = default;
  TTC_METHOD bf16(float value) {
    const uint32_t u = bits_as<uint32_t>(value);
    bits = value != value ? 0x7fff : (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  TTC_METHOD operator float() const {
    return bits_as<float>((uint32_t)bits << 16);
  }
};

#if defined(__aarch64__) && !defined(TTC_PORTABLE_HALF)
typedef __fp16 half_bits;
#elif defined(__FLT16_MAX__) && !defined(TTC_PORTABLE_HALF)
typedef _Float16 half_bits;
#else
// g++ before 12 and clang++ before 15 have no 16-bit floating type on x86. Compilers vectorize these conversions.
struct half_bits {
  uint16_t bits;
  half_bits() = default;
  TTC_METHOD half_bits(float value) {
    const uint32_t u = bits_as<uint32_t>(value), size = u & 0x7fffffff;
    const uint32_t normal = (size - (112u << 23) + 0xfff + ((size >> 13) & 1)) >> 13;
    // 0.5 has the last place of a subnormal half, so that the sum rounds to it.
    const uint32_t subnormal = bits_as<uint32_t>(bits_as<float>(size) + 0.5f) - 0x3f000000;
    const uint32_t finite = size < 0x38800000 ? subnormal : normal;
    bits = (uint16_t)((u >> 16 & 0x8000) | (size >= 0x477ff000 ? 0x7c00 : finite));
  }
  TTC_METHOD operator float() const {
    const uint32_t size = (uint32_t)(bits & 0x7fff) << 13;
    const uint32_t finite = bits_as<uint32_t>(bits_as<float>(size) * 0x1p112f);
    return bits_as<float>((uint32_t)(bits & 0x8000) << 16 | (size >= 0x0f800000 ? size | 0x7f800000 : finite));
  }
};
#endif
struct f16 {
  half_bits value;
  f16() = default;
  TTC_METHOD f16(float wide) {
    const uint16_t nan = 0x7fff;  // the code that a GPU gives
    value = wide != wide ? bits_as<half_bits>(nan) : (half_bits)wide;
  }
  TTC_METHOD operator float() const {
    return (float)value;
  }
};

// Formats of eight bits: FRACTION bits, a BIAS, and the first code without a sign that is no finite number.
template <int FRACTION, int BIAS, int FINITE, int INFINITY_CODE, int NAN_CODE>
struct eight {
  uint8_t bits;
  eight() = default;
  eight(float value) : bits(encode(value, false)) {}
  static float magnitude(int code) {
    const int exponent = code >> FRACTION, fraction = code & ((1 << FRACTION) - 1);
    const float scale = 1.0f / (1 << FRACTION);
    return exponent ? __builtin_ldexpf(1 + fraction * scale, exponent - BIAS)
                    : __builtin_ldexpf(fraction * scale, 1 - BIAS);
  }
  static uint8_t encode(float value, bool toward_zero) {
    if (value != value) return NAN_CODE;
    const float size = __builtin_fabsf(value);
    int low = 0, high = FINITE - 1;  // the largest code whose number is not above
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (magnitude(middle) <= size)
        low = middle;
      else
        high = middle - 1;
    }
    if (!toward_zero && low < FINITE - 1) {
      const float below = size - magnitude(low), above = magnitude(low + 1) - size;
      if (above < below || (above == below && low % 2)) low++;
    }
    if (NAN_CODE == 128 && low == 0) return 0;
    return (uint8_t)(low | (__builtin_signbit(value) ? 128 : 0));
  }
  operator float() const {
    if (bits == NAN_CODE) return __builtin_nanf("");
    const int code = bits & 127;
    const float size = code < FINITE ? magnitude(code) : code == INFINITY_CODE ? __builtin_inff() : __builtin_nanf("");
    return bits & 128 ? -size : size;
  }
};
typedef eight<2, 15, 0x7C, 0x7C, 0x7F> f8e5m2;
typedef eight<3, 7, 0x7F, -1, 0x7F> f8e4m3;
typedef eight<3, 15, 0x80, -1, 0x7F> f8e4b15;
typedef eight<3, 8, 0x80, -1, 0x80> f8e4b8;
typedef eight<2, 16, 0x80, -1, 0x80> f8e5b16;

// What an element is computed with.
template <class T>
struct wide {
  typedef T type;
};
template <>
struct wide<bf16> {
  typedef float type;
};
template <>
struct wide<f16> {
  typedef float type;
};
template <int A, int B, int C, int D, int E>
struct wide<eight<A, B, C, D, E>> {
  typedef float type;
};
template <class T>
TTC_INLINE typename wide<T>::type widen(T value) {
  return (typename wide<T>::type)value;
}

template <class T>
struct make_unsigned {
  typedef T type;
};
template <>
struct make_unsigned<int8_t> {
  typedef uint8_t type;
};
template <>
struct make_unsigned<int16_t> {
  typedef uint16_t type;
};
template <>
struct make_unsigned<int32_t> {
  typedef uint32_t type;
};
template <>
struct make_unsigned<int64_t> {
  typedef uint64_t type;
};
template <class T>
TTC_INLINE typename make_unsigned<T>::type as_unsigned(T value) {
  return (typename make_unsigned<T>::type)value;
}
