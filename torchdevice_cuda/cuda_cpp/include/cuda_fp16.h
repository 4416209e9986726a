#pragma once
#include "host_cuda/half_types.h"
#ifdef HOST_CUDA_TRANSLATED

HOST_CUDA_NARROW(__half, __half2, half_bits, half_value, c10::Half)
typedef __half half;
typedef __half2 half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;

static inline __half __float2half(float x) {
  return __half(x);
}
static inline __half __float2half_rn(float x) {
  return __half(x);
}
static inline __half __double2half(double x) {
  return __half(x);
}
static inline float __half2float(__half x) {
  return float(x);
}
static inline __half2 __float2half2_rn(float x) {
  return {__half(x), __half(x)};
}
static inline __half2 __floats2half2_rn(float x, float y) {
  return {__half(x), __half(y)};
}
static inline __half2 __float22half2_rn(float2 v) {
  return {__half(v.x), __half(v.y)};
}
static inline float2 __half22float2(__half2 v) {
  return {float(v.x), float(v.y)};
}
static inline __half2 __half2half2(__half x) {
  return {x, x};
}
static inline __half2 __halves2half2(__half x, __half y) {
  return {x, y};
}
static inline __half2 make_half2(__half x, __half y) {
  return {x, y};
}
static inline __half __low2half(__half2 v) {
  return v.x;
}
static inline __half __high2half(__half2 v) {
  return v.y;
}
static inline float __low2float(__half2 v) {
  return float(v.x);
}
static inline float __high2float(__half2 v) {
  return float(v.y);
}
static inline __half2 __lows2half2(__half2 a, __half2 b) {
  return {a.x, b.x};
}
static inline __half2 __highs2half2(__half2 a, __half2 b) {
  return {a.y, b.y};
}
static inline __half __int2half_rn(int x) {
  return __half(x);
}
static inline int __half2int_rn(__half x) {
  return __float2int_rn(float(x));
}
static inline int __half2int_rz(__half x) {
  return __float2int_rz(float(x));
}
static inline unsigned short __half_as_ushort(__half x) {
  return x.__x;
}
static inline short __half_as_short(__half x) {
  return static_cast<short>(x.__x);
}
static inline __half __ushort_as_half(unsigned short x) {
  return __half(__half_raw{x});
}
static inline __half __short_as_half(short x) {
  return __half(__half_raw{static_cast<unsigned short>(x)});
}
#endif
