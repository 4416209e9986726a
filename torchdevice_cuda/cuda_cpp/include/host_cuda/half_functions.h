// Functions of CUDA's numbers of 16 bits and their pairs, which half and bfloat16 share.
#pragma once

#include "host_cuda/half_types.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

// To an integer in a direction of rounding, as __float2int_rn and its like.
enum class Rounding { nearest, zero, down, up };
inline float rounded_value(float x, Rounding direction) {
  switch (direction) {
    case Rounding::nearest:
      return std::nearbyint(x);
    case Rounding::zero:
      return std::trunc(x);
    case Rounding::down:
      return std::floor(x);
    default:
      return std::ceil(x);
  }
}
// The neighbour of a rounded number, where it was rounded against the direction.
template <class T, class Wide>
T narrowed(Wide x, Rounding direction) {
  T made(static_cast<float>(x));
  const auto got = static_cast<Wide>(static_cast<float>(made));
  if (!(got == got) || got == x || direction == Rounding::nearest) return made;
  const bool above = got > x;
  const bool low = direction == Rounding::down || (direction == Rounding::zero && x > 0);
  if (above == low) {
    const bool toward_zero = (got > 0) == low;
    const auto bits = static_cast<unsigned short>(toward_zero ? made.__x - 1 : made.__x + 1);
    std::memcpy(static_cast<void*>(&made), &bits, sizeof bits);
  }
  return made;
}
template <class T>
T saturated(T a) {
  const float x = a;
  return T(x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f);
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
#define HOST_CUDA_ARITHMETIC(name, type, pair, sign)     \
  HOST_CUDA_BOTH(name, type, pair, a sign b)             \
  static inline type name##_rn(type a, type b) {         \
    return a sign b;                                     \
  }                                                      \
  static inline pair name##2_rn(pair a, pair b) {        \
    return name##2(a, b);                                \
  }                                                      \
  static inline type name##_sat(type a, type b) {        \
    return host_cuda::saturated(a sign b);               \
  }                                                      \
  static inline pair name##2_sat(pair a, pair b) {       \
    return {name##_sat(a.x, b.x), name##_sat(a.y, b.y)}; \
  }
// Ordered: false where one is no number; unordered (`u`): true there. Pairs: as numbers, as one answer, as masks.
#define HOST_CUDA_COMPARISON(name, type, pair, holds) \
  static inline bool __h##name(type a, type b) {      \
    return holds;                                     \
  }                                                   \
  static inline bool __h##name##u(type a, type b) {   \
    return a != a || b != b || (holds);               \
  }                                                   \
  HOST_CUDA_PAIR_COMPARED(name, type, pair)           \
  HOST_CUDA_PAIR_COMPARED(name##u, type, pair)
#define HOST_CUDA_PAIR_COMPARED(name, type, pair)                                              \
  static inline pair __h##name##2(pair a, pair b) {                                            \
    return {type(__h##name(a.x, b.x) ? 1.0f : 0.0f), type(__h##name(a.y, b.y) ? 1.0f : 0.0f)}; \
  }                                                                                            \
  static inline bool __hb##name##2(pair a, pair b) {                                           \
    return __h##name(a.x, b.x) && __h##name(a.y, b.y);                                         \
  }                                                                                            \
  static inline unsigned __h##name##2_mask(pair a, pair b) {                                   \
    return (__h##name(a.x, b.x) ? 0xffffu : 0u) | (__h##name(a.y, b.y) ? 0xffff0000u : 0u);    \
  }
#define HOST_CUDA_FUNCTION(name, type, pair, expression) \
  static inline type h##name(type a) {                   \
    const float x = a;                                   \
    return type(expression);                             \
  }                                                      \
  static inline pair h2##name(pair a) {                  \
    return {h##name(a.x), h##name(a.y)};                 \
  }
// `short_name` as in __half2int_rn and __int2half_rn.
#define HOST_CUDA_INTEGER(type, short_name, integer, word)           \
  HOST_CUDA_INTEGER_IN(type, short_name, integer, word, rn, nearest) \
  HOST_CUDA_INTEGER_IN(type, short_name, integer, word, rz, zero)    \
  HOST_CUDA_INTEGER_IN(type, short_name, integer, word, rd, down)    \
  HOST_CUDA_INTEGER_IN(type, short_name, integer, word, ru, up)
#define HOST_CUDA_INTEGER_IN(type, short_name, integer, word, suffix, direction)              \
  static inline integer __##short_name##2##word##_##suffix(type a) {                          \
    const float x = host_cuda::rounded_value(float(a), host_cuda::Rounding::direction);       \
    return host_cuda::to_integer<integer>(x);                                                 \
  }                                                                                           \
  static inline type __##word##2##short_name##_##suffix(integer a) {                          \
    return host_cuda::narrowed<type>(static_cast<double>(a), host_cuda::Rounding::direction); \
  }

#define HOST_CUDA_NARROW_FUNCTIONS(type, pair, short_name)                                   \
  HOST_CUDA_ARITHMETIC(__hadd, type, pair, +)                                                \
  HOST_CUDA_ARITHMETIC(__hsub, type, pair, -)                                                \
  HOST_CUDA_ARITHMETIC(__hmul, type, pair, *)                                                \
  HOST_CUDA_BOTH(__hmax, type, pair, (a < b || a != a ? b : a))                              \
  HOST_CUDA_BOTH(__hmin, type, pair, (b < a || a != a ? b : a))                              \
  static inline type __hmax_nan(type a, type b) {                                            \
    return a != a ? a : (b != b ? b : __hmax(a, b));                                         \
  }                                                                                          \
  static inline type __hmin_nan(type a, type b) {                                            \
    return a != a ? a : (b != b ? b : __hmin(a, b));                                         \
  }                                                                                          \
  static inline pair __hmax2_nan(pair a, pair b) {                                           \
    return {__hmax_nan(a.x, b.x), __hmax_nan(a.y, b.y)};                                     \
  }                                                                                          \
  static inline pair __hmin2_nan(pair a, pair b) {                                           \
    return {__hmin_nan(a.x, b.x), __hmin_nan(a.y, b.y)};                                     \
  }                                                                                          \
  static inline type __hdiv(type a, type b) {                                                \
    return a / b;                                                                            \
  }                                                                                          \
  static inline pair __h2div(pair a, pair b) {                                               \
    return {a.x / b.x, a.y / b.y};                                                           \
  }                                                                                          \
  static inline type __hneg(type a) {                                                        \
    return -a;                                                                               \
  }                                                                                          \
  static inline pair __hneg2(pair a) {                                                       \
    return {-a.x, -a.y};                                                                     \
  }                                                                                          \
  static inline type __habs(type a) {                                                        \
    return type(std::fabs(float(a)));                                                        \
  }                                                                                          \
  static inline pair __habs2(pair a) {                                                       \
    return {__habs(a.x), __habs(a.y)};                                                       \
  }                                                                                          \
  /* The product is exact in double, and so is the sum's rounding to float's neighbour. */   \
  static inline type __hfma(type a, type b, type c) {                                        \
    return type(static_cast<float>(double(float(a)) * double(float(b)) + double(float(c)))); \
  }                                                                                          \
  static inline type __hfma_sat(type a, type b, type c) {                                    \
    return host_cuda::saturated(__hfma(a, b, c));                                            \
  }                                                                                          \
  static inline type __hfma_relu(type a, type b, type c) {                                   \
    const type made = __hfma(a, b, c);                                                       \
    return made < type(0.0f) ? type(0.0f) : made;                                            \
  }                                                                                          \
  static inline pair __hfma2(pair a, pair b, pair c) {                                       \
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};                                   \
  }                                                                                          \
  static inline pair __hfma2_sat(pair a, pair b, pair c) {                                   \
    return {__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)};                           \
  }                                                                                          \
  static inline pair __hfma2_relu(pair a, pair b, pair c) {                                  \
    return {__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)};                         \
  }                                                                                          \
  static inline pair __hcmadd(pair a, pair b, pair c) {                                      \
    const type re = __hfma(a.x, b.x, c.x), im = __hfma(a.x, b.y, c.y);                       \
    return {__hfma(-a.y, b.y, re), __hfma(a.y, b.x, im)};                                    \
  }                                                                                          \
  HOST_CUDA_COMPARISON(eq, type, pair, a == b)                                               \
  HOST_CUDA_COMPARISON(ne, type, pair, a < b || b < a)                                       \
  HOST_CUDA_COMPARISON(lt, type, pair, a < b)                                                \
  HOST_CUDA_COMPARISON(le, type, pair, a <= b)                                               \
  HOST_CUDA_COMPARISON(gt, type, pair, a > b)                                                \
  HOST_CUDA_COMPARISON(ge, type, pair, a >= b)                                               \
  static inline bool __hisnan(type a) {                                                      \
    return a != a;                                                                           \
  }                                                                                          \
  static inline pair __hisnan2(pair a) {                                                     \
    return {type(a.x != a.x ? 1.0f : 0.0f), type(a.y != a.y ? 1.0f : 0.0f)};                 \
  }                                                                                          \
  static inline int __hisinf(type a) {                                                       \
    const float x = a;                                                                       \
    return std::isinf(x) ? (x < 0.0f ? -1 : 1) : 0;                                          \
  }                                                                                          \
  HOST_CUDA_FUNCTION(exp, type, pair, std::exp(x))                                           \
  HOST_CUDA_FUNCTION(exp2, type, pair, std::exp2(x))                                         \
  HOST_CUDA_FUNCTION(exp10, type, pair, static_cast<float>(std::pow(10.0, double(x))))       \
  HOST_CUDA_FUNCTION(log, type, pair, std::log(x))                                           \
  HOST_CUDA_FUNCTION(log2, type, pair, std::log2(x))                                         \
  HOST_CUDA_FUNCTION(log10, type, pair, std::log10(x))                                       \
  HOST_CUDA_FUNCTION(sqrt, type, pair, std::sqrt(x))                                         \
  HOST_CUDA_FUNCTION(rsqrt, type, pair, 1.0f / std::sqrt(x))                                 \
  HOST_CUDA_FUNCTION(rcp, type, pair, 1.0f / x)                                              \
  HOST_CUDA_FUNCTION(sin, type, pair, std::sin(x))                                           \
  HOST_CUDA_FUNCTION(cos, type, pair, std::cos(x))                                           \
  HOST_CUDA_FUNCTION(tanh, type, pair, std::tanh(x))                                         \
  HOST_CUDA_FUNCTION(tanh_approx, type, pair, std::tanh(x))                                  \
  HOST_CUDA_FUNCTION(ceil, type, pair, std::ceil(x))                                         \
  HOST_CUDA_FUNCTION(floor, type, pair, std::floor(x))                                       \
  HOST_CUDA_FUNCTION(trunc, type, pair, std::trunc(x))                                       \
  HOST_CUDA_FUNCTION(rint, type, pair, std::nearbyint(x))                                    \
  HOST_CUDA_INTEGER(type, short_name, int, int)                                              \
  HOST_CUDA_INTEGER(type, short_name, unsigned, uint)                                        \
  HOST_CUDA_INTEGER(type, short_name, short, short)                                          \
  HOST_CUDA_INTEGER(type, short_name, unsigned short, ushort)                                \
  HOST_CUDA_INTEGER(type, short_name, long long, ll)                                         \
  HOST_CUDA_INTEGER(type, short_name, unsigned long long, ull)                               \
  static inline signed char __##short_name##2char_rz(type a) {                               \
    return host_cuda::to_integer<signed char>(std::trunc(float(a)));                         \
  }                                                                                          \
  static inline unsigned char __##short_name##2uchar_rz(type a) {                            \
    return host_cuda::to_integer<unsigned char>(std::trunc(float(a)));                       \
  }

// What code of the host has, too.
#define HOST_CUDA_NARROW_CONVERSIONS(type, pair, short_name)        \
  static inline short __##short_name##_as_short(type a) {           \
    return static_cast<short>(a.__x);                               \
  }                                                                 \
  static inline unsigned short __##short_name##_as_ushort(type a) { \
    return a.__x;                                                   \
  }                                                                 \
  static inline type __ushort_as_##short_name(unsigned short x) {   \
    return type(type##_raw{x});                                     \
  }                                                                 \
  static inline type __short_as_##short_name(short x) {             \
    return type(type##_raw{static_cast<unsigned short>(x)});        \
  }                                                                 \
  static inline type __float2##short_name(float x) {                \
    return type(x);                                                 \
  }                                                                 \
  static inline type __float2##short_name##_rn(float x) {           \
    return type(x);                                                 \
  }                                                                 \
  static inline type __float2##short_name##_rz(float x) {           \
    return host_cuda::narrowed<type>(x, host_cuda::Rounding::zero); \
  }                                                                 \
  static inline type __float2##short_name##_rd(float x) {           \
    return host_cuda::narrowed<type>(x, host_cuda::Rounding::down); \
  }                                                                 \
  static inline type __float2##short_name##_ru(float x) {           \
    return host_cuda::narrowed<type>(x, host_cuda::Rounding::up);   \
  }                                                                 \
  static inline type __double2##short_name(double x) {              \
    return type(x);                                                 \
  }                                                                 \
  static inline float __##short_name##2float(type x) {              \
    return float(x);                                                \
  }                                                                 \
  static inline float __low2float(pair v) {                         \
    return float(v.x);                                              \
  }                                                                 \
  static inline float __high2float(pair v) {                        \
    return float(v.y);                                              \
  }                                                                 \
  static inline pair __lowhigh2highlow(pair v) {                    \
    return {v.y, v.x};                                              \
  }
