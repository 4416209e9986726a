#pragma once
#include "cuda_fp16.h"
#ifdef HOST_CUDA_TRANSLATED

HOST_CUDA_NARROW(__nv_bfloat16, __nv_bfloat162, bfloat_bits, bfloat_value, c10::BFloat16)
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

static inline __nv_bfloat16 __float2bfloat16(float x) {
  return __nv_bfloat16(x);
}
static inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  return __nv_bfloat16(x);
}
static inline __nv_bfloat16 __double2bfloat16(double x) {
  return __nv_bfloat16(x);
}
static inline float __bfloat162float(__nv_bfloat16 x) {
  return float(x);
}
static inline __nv_bfloat162 __float2bfloat162_rn(float x) {
  return {__nv_bfloat16(x), __nv_bfloat16(x)};
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__nv_bfloat16(x), __nv_bfloat16(y)};
}
static inline float2 __bfloat1622float2(__nv_bfloat162 v) {
  return {float(v.x), float(v.y)};
}
static inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) {
  return {x, x};
}
static inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) {
  return {x, y};
}
static inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) {
  return v.x;
}
static inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) {
  return v.y;
}
static inline float __low2float(__nv_bfloat162 v) {
  return float(v.x);
}
static inline float __high2float(__nv_bfloat162 v) {
  return float(v.y);
}
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) {
  return x.__x;
}
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) {
  return __nv_bfloat16(__nv_bfloat16_raw{x});
}
#endif
