// Arithmetic of libdevice that rounds down, up or toward zero, and its functions of integers.
#pragma once
#include "arithmetic.h"
#include "functions.h"

enum Rounding { NEAREST, DOWN, UP, TOWARD_ZERO };

template <class T>
TTC_INLINE T largest() {
  if constexpr (sizeof(T) == 4) return 3.40282347e+38f;
  return T(1.7976931348623157e+308);
}
template <class T>
TTC_INLINE bool is_finite(T x) {
  return __builtin_fabs((double)x) <= (double)largest<T>();
}
// The result in another direction, given the nearest one and the sign of what is missing to the exact one.
template <class T>
TTC_INLINE T direct(T nearest, double missing, Rounding rounding) {
  const bool is_down = rounding == DOWN || (rounding == TOWARD_ZERO && !__builtin_signbit(nearest));
  if (rounding == NEAREST || missing == 0 || missing != missing) return nearest;
  if (is_down && missing < 0) return fn_nextafter(nearest, (T)-__builtin_inf());
  if (!is_down && missing > 0) return fn_nextafter(nearest, (T)__builtin_inf());
  return nearest;
}
// A result that is infinite because it is too large for the type is above every number.
template <class T>
TTC_INLINE double find_missing(T nearest, double missing) {
  return is_finite(nearest) || nearest != nearest ? missing : nearest > 0 ? -1 : 1;
}
// What a sum's rounding lost. The variables keep the compiler from contracting or reordering.
template <class T>
TTC_INLINE T find_lost(T a, T b, T sum) {
  const volatile T other = sum - a, own = sum - other;
  const volatile T a_lost = a - own, b_lost = b - other;
  return a_lost + b_lost;
}
template <class T>
TTC_INLINE T fn_add(T a, T b, Rounding rounding) {
  const volatile T sum = a + b;
  const T nearest = sum;
  if (!is_finite(a) || !is_finite(b)) return nearest;
  const T result = direct(nearest, find_missing(nearest, find_lost(a, b, nearest)), rounding);
  return nearest == 0 && rounding == DOWN && (a != 0 || b != 0 || __builtin_signbit(a) || __builtin_signbit(b))
      ? T(-0.0)
      : result;
}
template <class T>
TTC_INLINE T fn_sub(T a, T b, Rounding rounding) {
  return fn_add(a, T(-b), rounding);
}
template <class T>
TTC_INLINE double find_missing_product(T a, T b, T product) {
  if constexpr (sizeof(T) == 4) return (double)a * (double)b - (double)product;
  return fn_fma(a, b, -product);
}
template <class T>
TTC_INLINE T fn_mul(T a, T b, Rounding rounding) {
  const volatile T product = a * b;
  const T nearest = product;
  if (!is_finite(a) || !is_finite(b)) return nearest;
  return direct(nearest, find_missing(nearest, find_missing_product(a, b, nearest)), rounding);
}
template <class T>
TTC_INLINE T fn_div(T a, T b, Rounding rounding) {
  const T nearest = a / b;
  if (!is_finite(a) || !is_finite(b) || b == 0) return nearest;
  const double rest = -find_missing_product(nearest, b, a);
  return direct(nearest, find_missing(nearest, b < 0 ? -rest : rest), rounding);
}
template <class T>
TTC_INLINE T fn_rcp(T x, Rounding rounding) {
  return fn_div(T(1), x, rounding);
}
template <class T>
TTC_INLINE T fn_sqrt(T x, Rounding rounding) {
  const T nearest = fn_sqrt(x);
  return is_finite(x) && x > 0 ? direct(nearest, -find_missing_product(nearest, nearest, x), rounding) : nearest;
}
template <class T>
TTC_INLINE T fn_fma(T a, T b, T c, Rounding rounding) {
  const T nearest = fn_fma(a, b, c);
  if (!is_finite(a) || !is_finite(b) || !is_finite(c)) return nearest;
  const volatile T rounded = a * b;
  const T high = rounded, low = fn_fma(a, b, -high);
  const volatile T first = c + low;
  const T first_lost = find_lost(c, low, (T)first);
  const volatile T second = high + (T)first;
  const T second_lost = find_lost(high, (T)first, (T)second);
  const volatile T near = (T)second - nearest;
  return direct(nearest, find_missing(nearest, ((T)near + second_lost) + first_lost), rounding);
}

// Conversions, rounded.
template <class T, class F>
TTC_INLINE T round_to_integer(F x, Rounding rounding) {
  const F whole = rounding == DOWN ? fn_floor(x) : rounding == UP ? fn_ceil(x) : rounding == NEAREST ? fn_rint(x) : x;
  return to_integer<T>(whole);
}
template <class T, class I>
TTC_INLINE T round_integer(I x, Rounding rounding) {
  const T nearest = (T)x;
  const __int128 missing = (__int128)x - (__int128)nearest;
  return direct(nearest, missing < 0 ? -1 : missing > 0, rounding);
}
TTC_INLINE float round_double(double x, Rounding rounding) {
  const float nearest = (float)x;
  return is_finite(x) ? direct(nearest, find_missing(nearest, x - (double)nearest), rounding) : nearest;
}

// Parts of a double, and functions of integers.
TTC_INLINE int32_t fn_double2hiint(double x) {
  return (int32_t)(bits_as<int64_t>(x) >> 32);
}
TTC_INLINE int32_t fn_double2loint(double x) {
  return (int32_t)bits_as<int64_t>(x);
}
TTC_INLINE double fn_hiloint2double(int32_t high, int32_t low) {
  return bits_as<double>((uint64_t)(uint32_t)high << 32 | (uint32_t)low);
}
// A reciprocal of the first half of the bits alone.
TTC_INLINE double fn_rcp64h(double x) {
  return fn_hiloint2double(fn_double2hiint(1 / fn_hiloint2double(fn_double2hiint(x), 0)), 0);
}
TTC_INLINE int32_t fn_byte_perm(int32_t x, int32_t y, int32_t selector) {
  const uint64_t bytes = (uint64_t)(uint32_t)y << 32 | (uint32_t)x;
  uint32_t result = 0;
  for (int n = 0; n < 4; n++) {
    const uint32_t code = (uint32_t)selector >> (4 * n), byte = (bytes >> (8 * (code & 7))) & 0xff;
    result |= (code & 8 ? (byte & 0x80 ? 0xffu : 0u) : byte) << (8 * n);
  }
  return (int32_t)result;
}
TTC_INLINE int32_t fn_mulhi(int32_t a, int32_t b) {
  return (int32_t)(((int64_t)a * b) >> 32);
}
TTC_INLINE int64_t fn_mul64hi(int64_t a, int64_t b) {
  return (int64_t)(((__int128)a * b) >> 64);
}
TTC_INLINE int32_t fn_mul24(int32_t a, int32_t b) {
  return (int32_t)((uint32_t)(shift_left(a, 8) >> 8) * (uint32_t)(shift_left(b, 8) >> 8));
}
TTC_INLINE int32_t fn_umul24(int32_t a, int32_t b) {
  return (int32_t)(((uint32_t)a & 0xffffff) * ((uint32_t)b & 0xffffff));
}
TTC_INLINE int32_t fn_sad(int32_t a, int32_t b, int32_t c) {
  return (int32_t)((uint32_t)(a > b ? (int64_t)a - b : (int64_t)b - a) + (uint32_t)c);
}
TTC_INLINE int32_t fn_usad(int32_t a, int32_t b, int32_t c) {
  const uint32_t x = (uint32_t)a, y = (uint32_t)b;
  return (int32_t)((x > y ? x - y : y - x) + (uint32_t)c);
}
TTC_INLINE int32_t fn_hadd(int32_t a, int32_t b) {
  return (int32_t)(((int64_t)a + b) >> 1);
}
TTC_INLINE int32_t fn_rhadd(int32_t a, int32_t b) {
  return (int32_t)(((int64_t)a + b + 1) >> 1);
}
TTC_INLINE int32_t fn_uhadd(int32_t a, int32_t b) {
  return (int32_t)(((uint64_t)(uint32_t)a + (uint32_t)b) >> 1);
}
TTC_INLINE int32_t fn_urhadd(int32_t a, int32_t b) {
  return (int32_t)(((uint64_t)(uint32_t)a + (uint32_t)b + 1) >> 1);
}
