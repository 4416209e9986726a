// Arithmetic of integers, bits and logic.
#pragma once
#include "host_ptx/bits.h"

namespace host_ptx {

template <class T, class F>
HOST_PTX T each(F function, T a, T b) {
  return T{function(a.lo, b.lo), function(a.hi, b.hi)};
}
template <class T>
HOST_PTX T add_integers(T a, T b) {
  if constexpr (is_pair<T>)
    return each([](auto x, auto y) { return (decltype(x))(x + y); }, a, b);
  else
    return (T)((uint64_t)a + (uint64_t)b);
}
template <class T>
HOST_PTX T sub_integers(T a, T b) {
  if constexpr (is_pair<T>)
    return each([](auto x, auto y) { return (decltype(x))(x - y); }, a, b);
  else
    return (T)((uint64_t)a - (uint64_t)b);
}
HOST_PTX int32_t limit(int64_t value) {
  return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int32_t)value;
}
HOST_PTX int32_t add_saturated(int32_t a, int32_t b) {
  return limit((int64_t)a + b);
}
HOST_PTX int32_t sub_saturated(int32_t a, int32_t b) {
  return limit((int64_t)a - b);
}

template <bool IS_SET>
HOST_PTX bool& choose_carry(bool& cc, bool& unused) {
  return IS_SET ? cc : unused;
}
template <class T>
HOST_PTX T add_carry(T a, T b, bool in, bool& out) {
  typedef unsigned_of<T> W;
  const W first = (W)a + (W)b, sum = first + (W)in;
  out = first < (W)a || sum < first;
  return (T)sum;
}
// The flag is a borrow.
template <class T>
HOST_PTX T sub_carry(T a, T b, bool in, bool& out) {
  typedef unsigned_of<T> W;
  const W first = (W)a - (W)b, difference = first - (W)in;
  out = (W)a < (W)b || first < (W)in;
  return (T)difference;
}

template <class T>
HOST_PTX T multiply_lo(T a, T b) {
  return (T)((uint64_t)a * (uint64_t)b);
}
template <class T>
HOST_PTX T multiply_hi(T a, T b) {
  if constexpr (sizeof(T) == 8)
    return is_signed<T>() ? (T)(((__int128)a * (__int128)b) >> 64)
                          : (T)(((unsigned __int128)a * (unsigned __int128)b) >> 64);
  else if constexpr (is_signed<T>())
    return (T)(((int64_t)a * (int64_t)b) >> (sizeof(T) * 8));
  else
    return (T)(((uint64_t)a * (uint64_t)b) >> (sizeof(T) * 8));
}
template <class T, class W>
HOST_PTX W multiply_wide(T a, T b) {
  return (W)((W)a * (W)b);
}
template <class T>
HOST_PTX T cut24(T a) {
  return is_signed<T>() ? (T)((int32_t)((uint32_t)a << 8) >> 8) : (T)((uint32_t)a & 0xffffff);
}
template <class T>
HOST_PTX T multiply24_lo(T a, T b) {
  return (T)((int64_t)cut24(a) * (int64_t)cut24(b));
}
template <class T>
HOST_PTX T multiply24_hi(T a, T b) {
  return (T)(((int64_t)cut24(a) * (int64_t)cut24(b)) >> 16);
}
template <class T>
HOST_PTX T sum_difference(T a, T b, T c) {
  return (T)((uint64_t)c + (a < b ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b));
}
// A GPU divides by zero without an exception: all bits of the quotient are set, and the remainder is the dividend.
template <class T>
HOST_PTX T divide(T a, T b) {
  if (b == 0) return (T)-1;
  if (is_signed<T>() && b == (T)-1) return (T)(0 - (uint64_t)a);
  return (T)(a / b);
}
template <class T>
HOST_PTX T remainder(T a, T b) {
  if (b == 0) return a;
  if (is_signed<T>() && b == (T)-1) return 0;
  return (T)(a % b);
}
template <class T>
HOST_PTX T abs_integer(T a) {
  return a < 0 ? (T)(0 - (uint64_t)a) : a;
}
template <class T, bool RELU>
HOST_PTX T min_integers(T a, T b) {
  if constexpr (is_pair<T>) {
    return each([](auto x, auto y) { return min_integers<decltype(x), RELU>(x, y); }, a, b);
  } else {
    const T least = b < a ? b : a;
    return RELU && least < (T)0 ? (T)0 : least;
  }
}
template <class T, bool RELU>
HOST_PTX T max_integers(T a, T b) {
  if constexpr (is_pair<T>) {
    return each([](auto x, auto y) { return max_integers<decltype(x), RELU>(x, y); }, a, b);
  } else {
    const T most = a < b ? b : a;
    return RELU && most < (T)0 ? (T)0 : most;
  }
}

HOST_PTX uint32_t popc(uint32_t a) {
  return (uint32_t)__builtin_popcount(a);
}
HOST_PTX uint32_t popc(uint64_t a) {
  return (uint32_t)__builtin_popcountll(a);
}
HOST_PTX uint32_t clz(uint32_t a) {
  return a ? (uint32_t)__builtin_clz(a) : 32;
}
HOST_PTX uint32_t clz(uint64_t a) {
  return a ? (uint32_t)__builtin_clzll(a) : 64;
}
// The highest bit that is not the sign; how far it is from the top with .shiftamt.
template <class T, bool SHIFT>
HOST_PTX uint32_t bfind(T a) {
  typedef unsigned_of<T> W;
  const W bits = is_signed<T>() && a < 0 ? (W) ~(W)a : (W)a;
  if (!bits) return 0xffffffffu;
  const uint32_t at = (uint32_t)sizeof(T) * 8 - 1 - clz(bits);
  return SHIFT ? (uint32_t)sizeof(T) * 8 - 1 - at : at;
}
// The place of the n-th bit that is set, counted from a base, upwards or downwards.
HOST_PTX uint32_t fns(uint32_t mask, uint32_t base, int32_t n) {
  if (base > 31) return 0xffffffffu;
  if (n == 0) return mask >> base & 1 ? base : 0xffffffffu;
  const int step = n < 0 ? -1 : 1;
  int left = n < 0 ? -n : n;
  for (int at = (int)base; at >= 0 && at < 32; at += step)
    if ((mask >> at & 1) && --left == 0) return (uint32_t)at;
  return 0xffffffffu;
}
template <class T>
HOST_PTX T brev(T a) {
  T result = 0;
  for (unsigned i = 0; i < sizeof(T) * 8; i++) result = (T)(result << 1 | (a >> i & 1));
  return result;
}
template <class T>
HOST_PTX T bfe(T a, uint32_t start, uint32_t length) {
  constexpr uint32_t most = sizeof(T) * 8 - 1;
  typedef unsigned_of<T> W;
  const uint32_t at = start & 0xff, count = length & 0xff;
  const bool is_negative = is_signed<T>() && count > 0 && a >> (at + count - 1 < most ? at + count - 1 : most) & 1;
  W result = is_negative ? (W)-1 : 0;
  for (uint32_t i = 0; i <= most && i < count; i++) {
    const W bit = at + i <= most ? (W)a >> (at + i) & 1 : (W)is_negative;
    result = (W)((result & ~((W)1 << i)) | bit << i);
  }
  return (T)result;
}
template <class T>
HOST_PTX T bfi(T a, T b, uint32_t start, uint32_t length) {
  const uint32_t bits = sizeof(T) * 8, at = start & 0xff, count = length & 0xff;
  T result = b;
  for (uint32_t i = 0; i < count && at + i < bits; i++)
    result = (T)((result & ~((T)1 << (at + i))) | (a >> i & 1) << (at + i));
  return result;
}
HOST_PTX uint32_t limit_clamp(uint32_t n) {
  return n > 32 ? 32 : n;
}
HOST_PTX uint32_t limit_wrap(uint32_t n) {
  return n & 31;
}
HOST_PTX uint32_t ones(uint32_t count) {
  return count >= 32 ? 0xffffffffu : (1u << count) - 1;
}
HOST_PTX uint32_t bmsk_clamp(uint32_t at, uint32_t count) {
  return at >= 32 ? 0 : ones(count) << at;
}
HOST_PTX uint32_t bmsk_wrap(uint32_t at, uint32_t count) {
  return ones(count & 31) << (at & 31);
}
template <class T>
HOST_PTX T szext(T a, uint32_t bits) {
  if (bits == 0) return 0;
  if (bits >= 32) return a;
  const uint32_t low = (uint32_t)a & ones(bits);
  return is_signed<T>() && low >> (bits - 1) & 1 ? (T)(low | ~ones(bits)) : (T)low;
}

template <class T>
HOST_PTX int32_t lane_of(uint32_t a, int index, int bits) {
  const uint32_t part = a >> (index * bits) & ones((uint32_t)bits);
  return is_signed<T>() ? szext<int32_t>((int32_t)part, (uint32_t)bits) : (int32_t)part;
}
template <class T, class U>
HOST_PTX int32_t dp4a(uint32_t a, uint32_t b, int32_t c) {
  uint32_t sum = (uint32_t)c;
  for (int i = 0; i < 4; i++) sum += (uint32_t)(lane_of<T>(a, i, 8) * lane_of<U>(b, i, 8));
  return (int32_t)sum;
}
template <class T, class U>
HOST_PTX int32_t dp2a_lo(uint32_t a, uint32_t b, int32_t c) {
  uint32_t sum = (uint32_t)c;
  for (int i = 0; i < 2; i++) sum += (uint32_t)lane_of<T>(a, i, 16) * (uint32_t)lane_of<U>(b, i, 8);
  return (int32_t)sum;
}
template <class T, class U>
HOST_PTX int32_t dp2a_hi(uint32_t a, uint32_t b, int32_t c) {
  return dp2a_lo<T, U>(a, b >> 16, c);
}

HOST_PTX uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t lut) {
  uint32_t result = 0;
  for (int i = 0; i < 8; i++)
    if (lut >> i & 1) result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  return result;
}
template <class T>
HOST_PTX T shl(T a, uint32_t by) {
  return by >= sizeof(T) * 8 ? (T)0 : (T)((uint64_t)a << by);
}
template <class T>
HOST_PTX T shr(T a, uint32_t by) {
  constexpr uint32_t most = sizeof(T) * 8 - 1;
  if (is_signed<T>()) return (T)(a >> (by > most ? most : by));
  return by > most ? (T)0 : (T)(a >> by);
}
HOST_PTX uint32_t shf_l(uint32_t a, uint32_t b, uint32_t by) {
  return by >= 32 ? a : (uint32_t)(((uint64_t)b << 32 | a) << by >> 32);
}
HOST_PTX uint32_t shf_r(uint32_t a, uint32_t b, uint32_t by) {
  return (uint32_t)(((uint64_t)b << 32 | a) >> by);
}
// A byte of eight; its sign where the selector's fourth bit is set.
HOST_PTX uint32_t byte_of(uint64_t bytes, uint32_t selector) {
  const uint32_t byte = (uint32_t)(bytes >> ((selector & 7) * 8)) & 0xff;
  return selector & 8 ? (byte & 0x80 ? 0xff : 0) : byte;
}
HOST_PTX uint32_t prmt(uint32_t a, uint32_t b, uint32_t selectors) {
  const uint64_t bytes = (uint64_t)b << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; i++) result |= byte_of(bytes, selectors >> (4 * i) & 15) << (8 * i);
  return result;
}
HOST_PTX uint32_t prmt_of(uint32_t a, uint32_t b, const uint32_t (&selectors)[4]) {
  return prmt(a, b, selectors[0] | selectors[1] << 4 | selectors[2] << 8 | selectors[3] << 12);
}
HOST_PTX uint32_t prmt_f4e(uint32_t a, uint32_t b, uint32_t c) {
  const uint32_t n = c & 3;
  return prmt_of(a, b, {n, n + 1, n + 2, n + 3});
}
HOST_PTX uint32_t prmt_b4e(uint32_t a, uint32_t b, uint32_t c) {
  const uint32_t n = c & 3;
  return prmt_of(a, b, {n, (n + 7) & 7, (n + 6) & 7, (n + 5) & 7});
}
HOST_PTX uint32_t prmt_rc8(uint32_t a, uint32_t b, uint32_t c) {
  const uint32_t n = c & 3;
  return prmt_of(a, b, {n, n, n, n});
}
HOST_PTX uint32_t prmt_ecl(uint32_t a, uint32_t b, uint32_t c) {
  const uint32_t n = c & 3;
  return prmt_of(a, b, {n, n > 1 ? n : 1, n > 2 ? n : 2, 3});
}
HOST_PTX uint32_t prmt_ecr(uint32_t a, uint32_t b, uint32_t c) {
  const uint32_t n = c & 3;
  return prmt_of(a, b, {0, n < 1 ? n : 1, n < 2 ? n : 2, n});
}
HOST_PTX uint32_t prmt_rc16(uint32_t a, uint32_t b, uint32_t c) {
  const uint32_t n = (c & 1) * 2;
  return prmt_of(a, b, {n, n + 1, n, n + 1});
}

}  // namespace host_ptx
