// Formats of real numbers: what a code stands for, and the code that a number is rounded to.
#pragma once
#include "host_ptx/bits.h"

namespace host_ptx {

// NEAR is RN where the instruction says no rounding: a product and a sum may become one operation.
enum Round { NEAR, RN, RZ, RM, RP, RNA, RNI, RZI, RMI, RPI };
constexpr bool is_nearest(Round round) {
  return round == NEAR || round == RN;
}
constexpr bool is_integral(Round round) {
  return round >= RNI;
}

// Bits of the fraction, the exponent's bias, the first code that is not finite, the code of infinity if there is one,
// and the code of NaN.
template <class T>
struct format;
template <>
struct format<f16> {
  static constexpr int fraction = 10, bias = 15, shift = 0;
  static constexpr uint32_t end = 0x7c00, infinity = 0x7c00, nan = 0x7fff, sign = 0x8000;
};
template <>
struct format<bf16> {
  static constexpr int fraction = 7, bias = 127, shift = 0;
  static constexpr uint32_t end = 0x7f80, infinity = 0x7f80, nan = 0x7fff, sign = 0x8000;
};
template <>
struct format<tf32> {
  static constexpr int fraction = 10, bias = 127, shift = 13;
  static constexpr uint32_t end = 0x3fc00, infinity = 0x3fc00, nan = 0x3ffff, sign = 0x40000;
};
template <>
struct format<float> {
  static constexpr int fraction = 23, bias = 127, shift = 0;
  static constexpr uint32_t end = 0x7f800000, infinity = 0x7f800000, nan = 0x7fffffff, sign = 0x80000000u;
};
template <>
struct format<e5m2> {
  static constexpr int fraction = 2, bias = 15, shift = 0;
  static constexpr uint32_t end = 0x7c, infinity = 0x7c, nan = 0x7f, sign = 0x80;
};
template <>
struct format<e4m3> {
  static constexpr int fraction = 3, bias = 7, shift = 0;
  static constexpr uint32_t end = 0x7f, infinity = 0x7f, nan = 0x7f, sign = 0x80;
};
struct e2m1 {
  uint8_t bits;
};
template <>
struct format<e2m1> {
  static constexpr int fraction = 1, bias = 1, shift = 0;
  static constexpr uint32_t end = 8, infinity = 8, nan = 7, sign = 8;
};

template <class T>
HOST_PTX T make(uint32_t code) {
  return bits_as<T>((unsigned_of<T>)(code << format<T>::shift));
}
template <class T>
HOST_PTX T make_nan() {
  if constexpr (is_same<T, double>)
    return bits_as<double>((uint64_t)0x7ff8000000000000u);
  else
    return make<T>(format<T>::nan);
}

// A number of up to 53 bits; where a longer one was cut, its last bit is set (rounding to odd), so that rounding it
// again is rounding once.
template <class T>
HOST_PTX T encode(double value, Round round, bool is_finite = false) {
  typedef format<T> F;
  const uint64_t all = bits_as<uint64_t>(value), magnitude = all & 0x7fffffffffffffffu;
  const bool is_negative = all >> 63;
  const uint32_t sign = is_negative ? F::sign : 0;
  if (magnitude > 0x7ff0000000000000u) return make_nan<T>();
  if (magnitude == 0x7ff0000000000000u) return make<T>(sign | (is_finite ? F::end - 1 : F::infinity));
  if (!magnitude) return make<T>(sign);
  const int field = (int)(magnitude >> 52);
  const int exponent = (field ? field : 1) - 1023, least = 1 - F::bias;
  const uint64_t digits = (magnitude & 0xfffffffffffffu) | (field ? 1ull << 52 : 0);
  int shift = 52 - F::fraction + (exponent < least ? least - exponent : 0);
  if (shift > 60) shift = 60;
  const uint64_t rest = digits & ((1ull << shift) - 1), half = 1ull << (shift - 1);
  uint64_t kept = digits >> shift;
  const bool is_away = round == RZ ? false
      : round == RM                ? is_negative && rest
      : round == RP                ? !is_negative && rest
      : round == RNA               ? rest >= half
                                   : rest > half || (rest == half && (kept & 1));
  kept += is_away;
  uint64_t code = kept + (exponent < least ? 0 : (uint64_t)(exponent - least) << F::fraction);
  if (code >= F::end) {
    const bool is_cut = is_finite || round == RZ || (round == RM && !is_negative) || (round == RP && is_negative);
    code = is_cut ? F::end - 1 : F::infinity;
  }
  return make<T>(sign | (uint32_t)code);
}

// Exact: a double holds every number of the other formats.
template <class T>
HOST_PTX double decode(T value) {
  typedef format<T> F;
  const uint32_t all = (uint32_t)bits_as<unsigned_of<T>>(value) >> F::shift;
  const uint32_t code = all & (F::sign - 1);
  double size;
  if (code >= F::end && F::end < F::sign) {
    size = code == F::infinity && F::infinity != F::nan ? __builtin_inf() : __builtin_nan("");
  } else {
    const uint64_t exponent = code >> F::fraction, fraction = code & ((1u << F::fraction) - 1);
    if (exponent)
      size = bits_as<double>((exponent + 1023 - F::bias) << 52 | fraction << (52 - F::fraction));
    else
      size = (double)fraction * bits_as<double>((uint64_t)(1023 + 1 - F::bias - F::fraction) << 52);
  }
  return all & F::sign ? -size : size;
}
HOST_PTX double decode(double value) {
  return value;
}
HOST_PTX double decode(float value) {
  return value;
}

// Keeps the compiler from making one operation of a product and a sum: an instruction that says its rounding rounds.
template <class T>
HOST_PTX T keep(T value) {
#if defined(__aarch64__)
  __asm__("" : "+w"(value));
#elif defined(__x86_64__)
  __asm__("" : "+x"(value));
#else
  __asm__("" : "+m"(value));
#endif
  return value;
}

// The sum of two doubles, rounded to odd.
HOST_PTX double add_odd(double a, double b) {
  const double sum = keep(a + b);
  if (!(__builtin_fabs(sum) < __builtin_inf())) return sum;
  const double other = keep(sum - a), rest = keep(sum - other);
  const double error = keep(a - rest) + keep(b - other);
  if (error == 0) return sum;
  const uint64_t bits = bits_as<uint64_t>(sum);
  if (bits & 1) return sum;
  // One step towards the exact sum.
  return bits_as<double>((error > 0) == (sum > 0) ? bits + 1 : bits - 1);
}
// An integer as a double, rounded to odd.
template <class T>
HOST_PTX double integer_odd(T value) {
  const bool is_negative = is_signed<T>() && value < 0;
  uint64_t size = is_negative ? 0 - (uint64_t)(int64_t)value : (uint64_t)value;
  double scale = 1;
  if (size >> 53) {
    const int shift = 11 - __builtin_clzll(size);
    const bool is_cut = size & ((1ull << shift) - 1);
    size = size >> shift | is_cut;
    scale = (double)(1ull << shift);
  }
  const double result = (double)size * scale;
  return is_negative ? -result : result;
}

template <class T>
HOST_PTX T flush(T value) {
  if constexpr (is_same<T, float>)
    return bits_as<uint32_t>(value) & 0x7f800000 ? value : bits_as<float>(bits_as<uint32_t>(value) & 0x80000000u);
  else if constexpr (is_same<T, f16>)
    return f16{(uint16_t)(value.bits & 0x7c00 ? value.bits : value.bits & 0x8000)};
  else if constexpr (is_same<T, bf16>)
    return bf16{(uint16_t)(value.bits & 0x7f80 ? value.bits : value.bits & 0x8000)};
  else
    return value;
}
template <bool FTZ, class T>
HOST_PTX T flush_if(T value) {
  return FTZ ? flush(value) : value;
}
HOST_PTX bool is_nan(float value) {
  return (bits_as<uint32_t>(value) & 0x7fffffff) > 0x7f800000;
}
HOST_PTX bool is_nan(double value) {
  return (bits_as<uint64_t>(value) & 0x7fffffffffffffffu) > 0x7ff0000000000000u;
}
HOST_PTX bool is_nan(f16 value) {
  return (value.bits & 0x7fff) > 0x7c00;
}
HOST_PTX bool is_nan(bf16 value) {
  return (value.bits & 0x7fff) > 0x7f80;
}
template <class T>
HOST_PTX bool is_minus(T value) {
  typedef unsigned_of<T> W;
  return bits_as<W>(value) >> (sizeof(T) * 8 - 1);
}
template <class T>
HOST_PTX T set_sign(T value, bool is_negative) {
  typedef unsigned_of<T> W;
  const W sign = (W)((W)1 << (sizeof(T) * 8 - 1)), size = (W)(bits_as<W>(value) & (W)~sign);
  return bits_as<T>((W)(is_negative ? size | sign : size));
}

}  // namespace host_ptx
