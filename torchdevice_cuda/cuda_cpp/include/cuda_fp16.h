#pragma once
#include "host_cuda/half_functions.h"

HOST_CUDA_NARROW(__half, __half2, half_bits, half_value, c10::Half)
HOST_CUDA_NARROW_CONVERSIONS(__half, __half2, half)
#ifdef HOST_CUDA_TRANSLATED
HOST_CUDA_NARROW_FUNCTIONS(__half, __half2, half)
#endif
typedef __half half;
typedef __half2 half2;
typedef __half nv_half;
typedef __half2 nv_half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;
typedef __half_raw __nv_half_raw;
typedef __half2_raw __nv_half2_raw;
#define CUDART_INF_FP16 __ushort_as_half((unsigned short)0x7C00U)
#define CUDART_NAN_FP16 __ushort_as_half((unsigned short)0x7FFFU)
#define CUDART_MIN_DENORM_FP16 __ushort_as_half((unsigned short)0x0001U)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half((unsigned short)0x7BFFU)
#define CUDART_NEG_ZERO_FP16 __ushort_as_half((unsigned short)0x8000U)
#define CUDART_ZERO_FP16 __ushort_as_half((unsigned short)0x0000U)
#define CUDART_ONE_FP16 __ushort_as_half((unsigned short)0x3C00U)

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
static inline __half2 __low2half2(__half2 v) {
  return {v.x, v.x};
}
static inline __half2 __high2half2(__half2 v) {
  return {v.y, v.y};
}
static inline __half2 __lows2half2(__half2 a, __half2 b) {
  return {a.x, b.x};
}
static inline __half2 __highs2half2(__half2 a, __half2 b) {
  return {a.y, b.y};
}
