// Functions of mathematics. Those of float that kernels use most are written so that compilers vectorize them.
#pragma once
#include "types.h"

TTC_INLINE float scale_by_power(float value, int exponent) {
  const int half = exponent >> 1;
  return value * bits_as<float>((half + 127) << 23) * bits_as<float>((exponent - half + 127) << 23);
}
// exp(f) for |f| <= log(2) / 2, by its series.
TTC_INLINE float exp_near_zero(float f) {
  return 1.0f +
      f *
      (1.0f +
       f * (1 / 2.0f + f * (1 / 6.0f + f * (1 / 24.0f + f * (1 / 120.0f + f * (1 / 720.0f + f * (1 / 5040.0f)))))));
}
TTC_INLINE float round_small(float value) {
  return (value + 12582912.0f) - 12582912.0f;
}
TTC_INLINE float fn_exp2(float x) {
  const float limited = x < -151.0f ? -151.0f : x > 129.0f ? 129.0f : x;
  const float whole = round_small(limited);
  return scale_by_power(exp_near_zero((limited - whole) * 0.693147181f), (int)whole);
}
TTC_INLINE float fn_exp(float x) {
  const float limited = x < -104.5f ? -104.5f : x > 89.0f ? 89.0f : x;
  const float whole = round_small(limited * 1.44269504f);
  const float rest = (limited - whole * 0.693145752f) - whole * 1.42860677e-6f;
  return scale_by_power(exp_near_zero(rest), (int)whole);
}
// The logarithm as a multiple of 2's, and the rest: of a number between sqrt(1/2) and sqrt(2), by the series of atanh.
TTC_INLINE float log_parts(float x, float& exponent) {
  const bool is_small = x < 1.17549435e-38f;
  const int32_t bits = bits_as<int32_t>(is_small ? x * 8388608.0f : x);
  const int32_t shifted = bits - 0x3f3504f3;
  exponent = (float)((shifted >> 23) - (is_small ? 23 : 0));
  const float m = bits_as<float>((shifted & 0x007fffff) + 0x3f3504f3);
  const float s = (m - 1.0f) / (m + 1.0f), z = s * s;
  return 2.0f * s * (1.0f + z * (1 / 3.0f + z * (1 / 5.0f + z * (1 / 7.0f + z * (1 / 9.0f)))));
}
TTC_INLINE float log_limits(float x, float found) {
  const float inf = __builtin_inff();
  return x == 0.0f ? -inf : x < 0.0f ? __builtin_nanf("") : x == inf || x != x ? x : found;
}
TTC_INLINE float fn_log(float x) {
  float exponent;
  const float rest = log_parts(x, exponent);
  return log_limits(x, exponent * 0.693145752f + (exponent * 1.42860677e-6f + rest));
}
TTC_INLINE float fn_log2(float x) {
  float exponent;
  const float rest = log_parts(x, exponent);
  return log_limits(x, exponent + rest * 1.44269504f);
}
TTC_INLINE float fn_tanh(float x) {
  const float size = __builtin_fabsf(x), z = x * x;
  const float decay = fn_exp(-2.0f * size);
  const float far = __builtin_copysignf((1.0f - decay) / (1.0f + decay), x);
  return size < 0.15f ? x * (1.0f + z * (-1 / 3.0f + z * (2 / 15.0f + z * (-17 / 315.0f)))) : far;
}
TTC_INLINE double fn_exp2(double x) {
  return __builtin_exp2(x);
}
TTC_INLINE double fn_exp(double x) {
  return __builtin_exp(x);
}
TTC_INLINE double fn_log(double x) {
  return __builtin_log(x);
}
TTC_INLINE double fn_log2(double x) {
  return __builtin_log2(x);
}
TTC_INLINE double fn_tanh(double x) {
  return __builtin_tanh(x);
}

#define TTC_FUNCTION(name)                \
  TTC_INLINE float fn_##name(float x) {   \
    return __builtin_##name##f(x);        \
  }                                       \
  TTC_INLINE double fn_##name(double x) { \
    return __builtin_##name(x);           \
  }
#define TTC_FUNCTION_2(name)                        \
  TTC_INLINE float fn_##name(float x, float y) {    \
    return __builtin_##name##f(x, y);               \
  }                                                 \
  TTC_INLINE double fn_##name(double x, double y) { \
    return __builtin_##name(x, y);                  \
  }
// clang-format off
TTC_FUNCTION(sqrt) TTC_FUNCTION(sin) TTC_FUNCTION(cos) TTC_FUNCTION(tan) TTC_FUNCTION(erf) TTC_FUNCTION(erfc)
TTC_FUNCTION(asin) TTC_FUNCTION(acos) TTC_FUNCTION(atan) TTC_FUNCTION(sinh) TTC_FUNCTION(cosh) TTC_FUNCTION(asinh)
TTC_FUNCTION(acosh) TTC_FUNCTION(atanh) TTC_FUNCTION(log1p) TTC_FUNCTION(expm1) TTC_FUNCTION(log10) TTC_FUNCTION(cbrt)
TTC_FUNCTION(fabs) TTC_FUNCTION(floor) TTC_FUNCTION(ceil) TTC_FUNCTION(trunc) TTC_FUNCTION(round)
TTC_FUNCTION(nearbyint) TTC_FUNCTION(rint) TTC_FUNCTION(lgamma) TTC_FUNCTION(tgamma) TTC_FUNCTION(logb)
TTC_FUNCTION_2(pow) TTC_FUNCTION_2(fmod) TTC_FUNCTION_2(atan2) TTC_FUNCTION_2(hypot) TTC_FUNCTION_2(copysign)
TTC_FUNCTION_2(fdim) TTC_FUNCTION_2(nextafter) TTC_FUNCTION_2(remainder) TTC_FUNCTION_2(fmax) TTC_FUNCTION_2(fmin)
    // clang-format on
    TTC_INLINE float fn_exp10(float x) {
  return __builtin_powf(10.0f, x);
}
TTC_INLINE double fn_exp10(double x) {
  return __builtin_pow(10.0, x);
}
template <class T>
TTC_INLINE T fn_rsqrt(T x) {
  return T(1) / fn_sqrt(x);
}
TTC_INLINE float fn_fma(float x, float y, float z) {
  return __builtin_fmaf(x, y, z);
}
TTC_INLINE double fn_fma(double x, double y, double z) {
  return __builtin_fma(x, y, z);
}
TTC_INLINE float fn_ldexp(float x, int e) {
  return __builtin_ldexpf(x, e);
}
TTC_INLINE double fn_ldexp(double x, int e) {
  return __builtin_ldexp(x, e);
}
TTC_INLINE int fn_ilogb(double x) {
  return x == 0 || x != x ? INT32_MIN : __builtin_isinf(x) ? INT32_MAX : __builtin_ilogb(x);
}
template <class T>
TTC_INLINE T fn_powi(T x, int n) {
  return fn_pow(x, (T)n);
}
template <class T>
TTC_INLINE int fn_isnan(T x) {
  return x != x;
}
template <class T>
TTC_INLINE int fn_isinf(T x) {
  return __builtin_isinf(x) != 0;
}
template <class T>
TTC_INLINE int fn_isfinite(T x) {
  return __builtin_isfinite(x);
}
template <class T>
TTC_INLINE int fn_signbit(T x) {
  return __builtin_signbit(x) != 0;
}
template <class T>
TTC_INLINE T fn_saturate(T x) {
  return x > T(0) ? (x < T(1) ? x : T(1)) : T(0);
}
template <class T>
TTC_INLINE T fn_abs(T x) {
  return x < 0 ? T(-x) : x;
}
template <class T>
TTC_INLINE T fn_rcp(T x) {
  return T(1) / x;
}
TTC_INLINE int fn_clz(int32_t x) {
  return x ? __builtin_clz((uint32_t)x) : 32;
}
TTC_INLINE int fn_clz(int64_t x) {
  return x ? __builtin_clzll((uint64_t)x) : 64;
}
TTC_INLINE int fn_popc(int32_t x) {
  return __builtin_popcount((uint32_t)x);
}
TTC_INLINE int fn_popc(int64_t x) {
  return __builtin_popcountll((uint64_t)x);
}
TTC_INLINE int fn_ffs(int32_t x) {
  return __builtin_ffs(x);
}
TTC_INLINE int fn_ffs(int64_t x) {
  return __builtin_ffsll(x);
}
template <class T>
TTC_INLINE T fn_brev(T x) {
  auto from = as_unsigned(x), to = as_unsigned(T(0));
  for (unsigned bit = 0; bit < sizeof(T) * 8; bit++, from >>= 1) to = (to << 1) | (from & 1);
  return (T)to;
}
