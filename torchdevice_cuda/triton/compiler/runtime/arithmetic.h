// Arithmetic that a GPU defines and C++ does not, and comparisons of floating point.
#pragma once
#include "types.h"

template <class T>
TTC_INLINE T shift_left(T a, T b) {
  const auto by = as_unsigned(b);
  return by >= sizeof(T) * 8 ? T(0) : T(as_unsigned(a) << (by & (sizeof(T) * 8 - 1)));
}
template <class T>
TTC_INLINE T shift_right_unsigned(T a, T b) {
  const auto by = as_unsigned(b);
  return by >= sizeof(T) * 8 ? T(0) : T(as_unsigned(a) >> (by & (sizeof(T) * 8 - 1)));
}
template <class T>
TTC_INLINE T shift_right_signed(T a, T b) {
  const auto by = as_unsigned(b), most = decltype(by)(sizeof(T) * 8 - 1);
  return T(a >> (by > most ? most : by));
}
// A GPU divides by zero without an exception: all bits of the quotient are set, and the remainder is the dividend.
template <class T>
TTC_INLINE T divide_signed(T a, T b) {
  return b == 0 ? T(-1) : b == T(-1) ? T(-a) : T(a / b);
}
template <class T>
TTC_INLINE T remainder_signed(T a, T b) {
  return b == 0 ? a : b == T(-1) ? T(0) : T(a % b);
}
template <class T>
TTC_INLINE T divide_unsigned(T a, T b) {
  return b == 0 ? T(-1) : T(as_unsigned(a) / as_unsigned(b));
}
template <class T>
TTC_INLINE T remainder_unsigned(T a, T b) {
  return b == 0 ? a : T(as_unsigned(a) % as_unsigned(b));
}
template <class T>
TTC_INLINE T divide_ceiling(T a, T b) {
  const T quotient = divide_signed(a, b), rest = remainder_signed(a, b);
  return quotient + (rest != 0 && (rest > 0) == (b > 0));
}
template <class T>
TTC_INLINE T divide_floor(T a, T b) {
  const T quotient = divide_signed(a, b), rest = remainder_signed(a, b);
  return quotient - (rest != 0 && (rest > 0) != (b > 0));
}
TTC_INLINE int32_t multiply_high(int32_t a, int32_t b) {
  return (int32_t)(((uint64_t)(uint32_t)a * (uint32_t)b) >> 32);
}
TTC_INLINE int64_t multiply_high(int64_t a, int64_t b) {
  return (int64_t)(((unsigned __int128)(uint64_t)a * (uint64_t)b) >> 64);
}

// Real numbers as integers: cut off and limited. A GPU has no conversion to eight bits: they are the last of sixteen.
template <class T, class F>
TTC_INLINE T to_integer(F value) {
  if constexpr (sizeof(T) == 1) {
    return (T)to_integer<typename choose<(T(-1) < 0), int16_t, uint16_t>::type>(value);
  } else {
    constexpr bool is_signed = T(-1) < 0;
    constexpr T most = is_signed ? T(~(T(1) << (sizeof(T) * 8 - 1))) : T(-1);
    constexpr T least = is_signed ? T(T(1) << (sizeof(T) * 8 - 1)) : T(0);
    constexpr F above = F(most / 2 + 1) * F(2);
    const F inside = value >= above ? F(0) : value <= F(least) ? F(0) : value;
    const T whole = (T)(value == value ? inside : F(0));
    const T limited = value >= above ? most : value <= F(least) ? least : whole;
    const T none = sizeof(T) == 8 || sizeof(F) == 8 ? T(T(1) << (sizeof(T) * 8 - 1)) : T(0);
    return value == value ? limited : none;
  }
}

template <class T>
TTC_INLINE T max_number(T a, T b) {
  return b != b || a > b ? a : b;
}
template <class T>
TTC_INLINE T min_number(T a, T b) {
  return b != b || a < b ? a : b;
}
template <class T>
TTC_INLINE T max_nan(T a, T b) {
  return a != a || a > b ? a : b;
}
template <class T>
TTC_INLINE T min_nan(T a, T b) {
  return a != a || a < b ? a : b;
}
template <class T>
TTC_INLINE T larger(T a, T b) {
  return a > b ? a : b;
}
template <class T>
TTC_INLINE T smaller(T a, T b) {
  return a < b ? a : b;
}
template <class T>
TTC_INLINE T larger_unsigned(T a, T b) {
  return as_unsigned(a) > as_unsigned(b) ? a : b;
}
template <class T>
TTC_INLINE T smaller_unsigned(T a, T b) {
  return as_unsigned(a) < as_unsigned(b) ? a : b;
}
// Tensor cores read the first ten bits of a float's fraction.
TTC_INLINE float to_tf32(float value) {
  return bits_as<float>(bits_as<uint32_t>(value) & 0xffffe000u);
}
// A descriptor's loads round to the nearest of these numbers; halves away from zero.
TTC_INLINE float round_to_tf32(float value) {
  const uint32_t bits = bits_as<uint32_t>(value);
  return (bits & 0x7f800000u) == 0x7f800000u ? value : bits_as<float>((bits + 0x1000u) & 0xffffe000u);
}
// A scale of microscaling formats: a power of two.
TTC_INLINE float scale_of(uint8_t code) {
  return code == 255 ? __builtin_nanf("") : code ? bits_as<float>((uint32_t)code << 23) : 5.87747175e-39f;
}
// A number of four bits: a sign, two bits of exponent and one of fraction.
TTC_INLINE float e2m1_of(int code) {
  const int size = code & 7;
  const float value = size < 4 ? size * 0.5f : size < 6 ? size - 2.0f : size * 2.0f - 8.0f;
  return code & 8 ? -value : value;
}
template <class T>
TTC_INLINE T round_toward_zero(float value) {
  const T nearest = (T)value;
  if (!(__builtin_fabsf((float)nearest) > __builtin_fabsf(value))) return nearest;
  T below;
  typename choose<sizeof(T) == 2, uint16_t, uint8_t>::type code;
  memcpy(&code, &nearest, sizeof code);
  code--;
  memcpy(&below, &code, sizeof code);
  return below;
}
