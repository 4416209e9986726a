// Video instructions: arithmetic of bytes and halves of registers.
#pragma once
#include "host_ptx/bits.h"

namespace host_ptx {

// Sums, differences and shifted parts fit.
typedef __int128 video_t;

template <class T>
HOST_PTX int64_t video_part(T whole, int at, int bits) {
  const uint64_t low = (uint64_t)(uint32_t)whole >> at & ((1ull << bits) - 1);
  return (T)-1 < 0 && low >> (bits - 1) ? (int64_t)low - (1ll << bits) : (int64_t)low;
}
// To the range of the part that is written; otherwise the result wraps.
template <class T, bool SATURATES>
HOST_PTX T video_cut(video_t value, int, int bits) {
  if (SATURATES) {
    const video_t one = 1, low = (T)-1 < 0 ? -(one << (bits - 1)) : 0;
    const video_t high = (one << (bits - ((T)-1 < 0))) - 1;
    return (T)(value < low ? low : value > high ? high : value);
  }
  return (T)(uint32_t)(uint64_t)value;
}
template <class T>
HOST_PTX T video_merge(T value, T into, int at, int bits) {
  const uint32_t mask = (uint32_t)((1ull << bits) - 1) << at;
  return (T)(((uint32_t)value << at & mask) | ((uint32_t)into & ~mask));
}
template <class T>
HOST_PTX T video_add_third(T value, T third) {
  return (T)((uint32_t)value + (uint32_t)third);
}
template <class T>
HOST_PTX T video_min_third(T value, T third) {
  return value < third ? value : third;
}
template <class T>
HOST_PTX T video_max_third(T value, T third) {
  return value > third ? value : third;
}

#define HOST_PTX_VIDEO(name, result)                                                       \
  struct video_##name {                                                                    \
    __attribute__((always_inline)) inline video_t operator()(int64_t a, int64_t b) const { \
      return result;                                                                       \
    }                                                                                      \
  };
HOST_PTX_VIDEO(add, a + b)
HOST_PTX_VIDEO(sub, a - b)
HOST_PTX_VIDEO(absdiff, a < b ? b - a : a - b)
HOST_PTX_VIDEO(min, a < b ? a : b)
HOST_PTX_VIDEO(max, a > b ? a : b)
HOST_PTX_VIDEO(avrg, (a + b + (a + b >= 0)) >> 1)
HOST_PTX_VIDEO(eq, a == b)
HOST_PTX_VIDEO(ne, a != b)
HOST_PTX_VIDEO(lt, a < b)
HOST_PTX_VIDEO(le, a <= b)
HOST_PTX_VIDEO(gt, a > b)
HOST_PTX_VIDEO(ge, a >= b)
HOST_PTX_VIDEO(shl_clamp, (video_t)a*((video_t)1 << (b > 32 ? 32 : b)))
HOST_PTX_VIDEO(shl_wrap, (video_t)a*((video_t)1 << (b & 31)))
HOST_PTX_VIDEO(shr_clamp, a >> (b > 32 ? 32 : b))
HOST_PTX_VIDEO(shr_wrap, a >> (b & 31))
#undef HOST_PTX_VIDEO

// The sum is signed where a factor is.
template <class T, class A, class B, bool SATURATES, bool ADDS_ONE, int SHIFT>
HOST_PTX T video_scaled_mad(int64_t a, int64_t b, T c) {
  const bool is_signed = (A)-1 < 0 || (B)-1 < 0;
  const video_t third = is_signed ? (video_t)(int32_t)c : (video_t)(uint32_t)c;
  const video_t result = ((video_t)a * b + third + ADDS_ONE) >> SHIFT;
  return is_signed ? (T)video_cut<int32_t, SATURATES>(result, 0, 32) : (T)video_cut<uint32_t, SATURATES>(result, 0, 32);
}
template <class T, class A, class B, bool SATURATES, bool ADDS_ONE>
HOST_PTX T video_mad(int64_t a, int64_t b, T c) {
  return video_scaled_mad<T, A, B, SATURATES, ADDS_ONE, 0>(a, b, c);
}
template <class T, class A, class B, bool SATURATES, bool ADDS_ONE>
HOST_PTX T video_mad_shr7(int64_t a, int64_t b, T c) {
  return video_scaled_mad<T, A, B, SATURATES, ADDS_ONE, 7>(a, b, c);
}
template <class T, class A, class B, bool SATURATES, bool ADDS_ONE>
HOST_PTX T video_mad_shr15(int64_t a, int64_t b, T c) {
  return video_scaled_mad<T, A, B, SATURATES, ADDS_ONE, 15>(a, b, c);
}

// The lanes of both operands are taken from the eight bytes of both: digit 0 of `first` and `second` is lane 0's.
template <int COUNT, class T, class A, class B, bool SATURATES, bool ADDS, class F>
HOST_PTX T video_lanes(uint32_t a, uint32_t b, T c, int first, int second, int mask, F function) {
  const int bits = 32 / COUNT;
  uint32_t result = (uint32_t)c;
  for (int i = 0; i < COUNT; ++i) {
    if (!(mask >> i & 1)) continue;
    const int x = first >> 4 * i & 15, y = second >> 4 * i & 15;
    const int64_t left = video_part((A)(x < COUNT ? a : b), x % COUNT * bits, bits);
    const int64_t right = video_part((B)(y < COUNT ? a : b), y % COUNT * bits, bits);
    const T value = video_cut<T, SATURATES>(function(left, right), 0, bits);
    result = ADDS ? result + (uint32_t)value : (uint32_t)video_merge((T)value, (T)result, i * bits, bits);
  }
  return (T)result;
}

}  // namespace host_ptx
