// Conversions.
#pragma once
#include "host_ptx/floats.h"

namespace host_ptx {

template <class T>
constexpr T most_of() {
  return is_signed<T>() ? (T)(((uint64_t)1 << (sizeof(T) * 8 - 1)) - 1) : (T)-1;
}
template <class T>
constexpr T least_of() {
  return is_signed<T>() ? (T)((uint64_t)1 << (sizeof(T) * 8 - 1)) : (T)0;
}

template <class D, class S>
HOST_PTX D limit_integer(S value) {
  if constexpr (is_signed<S>()) {
    if (value < 0) return !is_signed<D>() ? (D)0 : (int64_t)value < (int64_t)least_of<D>() ? least_of<D>() : (D)value;
  }
  return (uint64_t)value > (uint64_t)most_of<D>() ? most_of<D>() : (D)value;
}

HOST_PTX double round_integral(double value, Round round) {
  switch (round) {
    case RZ:
    case RZI:
      return __builtin_trunc(value);
    case RM:
    case RMI:
      return __builtin_floor(value);
    case RP:
    case RPI:
      return __builtin_ceil(value);
    default:
      return __builtin_rint(value);
  }
}
template <class D, bool IS_LONG>
HOST_PTX D to_integer(double value, Round round) {
  if (is_nan(value)) return IS_LONG || sizeof(D) == 8 ? (D)((uint64_t)1 << (sizeof(D) * 8 - 1)) : (D)0;
  const double whole = round_integral(value, round);
  const double above = (double)(most_of<D>() / 2 + 1) * 2;
  if (whole >= above) return most_of<D>();
  if (whole <= (double)least_of<D>()) return least_of<D>();
  return (D)whole;
}

// A GPU keeps the bits of NaN where it converts from or to double, from bf16, and to tf32 with rna.
template <class D, class S, Round R>
HOST_PTX D convert_nan(S value) {
  const uint64_t bits = bits_as<unsigned_of<S>>(value);
  if constexpr (is_same<S, double> && is_same<D, double>) {
    return bits_as<D>(bits | 0x8000000000000u);
  } else if constexpr (is_same<S, double>) {
    typedef format<D> F;
    const uint64_t kept = bits >> (52 - F::fraction) & ((1u << F::fraction) - 1), quiet = 1u << (F::fraction - 1);
    return make<D>((uint32_t)((bits >> 63 ? F::sign : 0) | F::infinity | quiet | kept));
  } else if constexpr (is_same<D, double>) {
    typedef format<S> F;
    const uint64_t kept = (bits & (((uint64_t)1 << F::fraction) - 1)) << (52 - F::fraction);
    return bits_as<D>((bits & F::sign ? 1ull << 63 : 0) | 0x7ff8000000000000u | kept);
  } else if constexpr (is_same<S, bf16> && is_same<D, float>) {
    return bits_as<D>((uint32_t)(bits << 16));
  } else if constexpr (is_same<D, tf32> && R == RNA) {
    return tf32{(uint32_t)(bits & 0xffffe000u)};
  } else {
    return make_nan<D>();
  }
}

template <class D, class S, Round R, bool FTZ, bool SAT, bool RELU, bool FINITE>
HOST_PTX D convert(S value) {
  if constexpr (is_integer<S> && is_integer<D>) {
    return SAT ? limit_integer<D>(value) : (D)value;
  } else if constexpr (is_integer<D>) {
    return to_integer<D, is_same<S, double>>(decode(flush_if<FTZ>(value)), R);
  } else if constexpr (is_integer<S> && is_same<D, double>) {
    if constexpr (R == RZ || R == RM || R == RP)
      return saturate<SAT>(directed<double>(R, [](double given) { return given; }, value));
    else
      return saturate<SAT>((double)value);
  } else if constexpr (is_integer<S>) {
    return saturate<SAT>(encode<D>(integer_odd(value), R));
  } else {
    // .ftz is of float alone.
    double wide = decode(flush_if < FTZ && is_same < S, float >> (value));
    if (is_nan(wide)) return saturate<SAT>(convert_nan<D, S, R>(value));
    if (is_integral(R)) wide = round_integral(wide, R);
    if constexpr (is_same<D, double>) {
      return saturate<SAT>(wide);
    } else if constexpr (is_same<D, tf32>) {
      const tf32 made = encode<tf32>(wide, R, FINITE);
      return RELU && made.bits >> 31 ? tf32{0} : made;
    } else {
      const D made = encode<D>(wide, is_integral(R) ? RN : R, FINITE);
      return rectify<RELU>(saturate<SAT>(flush_if < FTZ && is_same < D, float >> (made)));
    }
  }
}
// Formats of eight bits and less, which always are finite.
template <class D, bool RELU>
HOST_PTX D convert_small(double value) {
  if (RELU && is_minus(value) && !is_nan(value)) value = 0;
  return encode<D>(value, RN, true);
}
// The first operand is the upper half.
template <class D, Round R, bool FTZ, bool SAT, bool RELU, bool FINITE>
HOST_PTX D convert_two(float hi, float lo) {
  if constexpr (is_same<D, e2m1x2>) {
    const auto low = convert_small<e2m1, RELU>(lo), high = convert_small<e2m1, RELU>(hi);
    return D{(uint8_t)(low.bits | high.bits << 4)};
  } else {
    typedef typename D::element E;
    if constexpr (sizeof(E) == 1)
      return D{convert_small<E, RELU>(lo), convert_small<E, RELU>(hi)};
    else
      return D{convert<E, float, R, FTZ, SAT, RELU, FINITE>(lo), convert<E, float, R, FTZ, SAT, RELU, FINITE>(hi)};
  }
}
template <class D, class S, Round R, bool FTZ, bool SAT, bool RELU, bool FINITE>
HOST_PTX D convert_pair(S value) {
  typedef typename D::element E;
  double lo, hi;
  if constexpr (is_same<S, e2m1x2>) {
    lo = decode(e2m1{(uint8_t)(value.bits & 15)});
    hi = decode(e2m1{(uint8_t)(value.bits >> 4)});
  } else {
    lo = decode(value.lo);
    hi = decode(value.hi);
  }
  if constexpr (sizeof(E) == 1) {
    return D{convert_small<E, RELU>(lo), convert_small<E, RELU>(hi)};
  } else {
    return D{rectify<RELU>(encode<E>(lo, RN, FINITE)), rectify<RELU>(encode<E>(hi, RN, FINITE))};
  }
}
template <class D>
HOST_PTX uint32_t pack(int32_t a, int32_t b, uint32_t c) {
  typedef unsigned_of<D> W;
  const uint32_t bits = sizeof(D) * 8;
  const uint32_t both = (uint32_t)(W)limit_integer<D>(b) | (uint32_t)(W)limit_integer<D>(a) << bits;
  return sizeof(D) == 1 ? both | c << 16 : both;
}

}  // namespace host_ptx
