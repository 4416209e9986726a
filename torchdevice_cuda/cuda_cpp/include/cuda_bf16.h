#pragma once
#include "cuda_fp16.h"

HOST_CUDA_NARROW(__nv_bfloat16, __nv_bfloat162, bfloat_bits, bfloat_value, c10::BFloat16)
HOST_CUDA_NARROW_CONVERSIONS(__nv_bfloat16, __nv_bfloat162, bfloat16)
#ifdef HOST_CUDA_TRANSLATED
HOST_CUDA_NARROW_FUNCTIONS(__nv_bfloat16, __nv_bfloat162, bfloat16)
#endif
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
#define CUDART_INF_BF16 __ushort_as_bfloat16((unsigned short)0x7F80U)
#define CUDART_NAN_BF16 __ushort_as_bfloat16((unsigned short)0x7FFFU)
#define CUDART_MIN_DENORM_BF16 __ushort_as_bfloat16((unsigned short)0x0001U)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16((unsigned short)0x7F7FU)
#define CUDART_NEG_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x8000U)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x0000U)
#define CUDART_ONE_BF16 __ushort_as_bfloat16((unsigned short)0x3F80U)

static inline __nv_bfloat162 __float2bfloat162_rn(float x) {
  return {__nv_bfloat16(x), __nv_bfloat16(x)};
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__nv_bfloat16(x), __nv_bfloat16(y)};
}
static inline __nv_bfloat162 __float22bfloat162_rn(float2 v) {
  return {__nv_bfloat16(v.x), __nv_bfloat16(v.y)};
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
static inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) {
  return {x, y};
}
static inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) {
  return v.x;
}
static inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) {
  return v.y;
}
static inline __nv_bfloat162 __low2bfloat162(__nv_bfloat162 v) {
  return {v.x, v.x};
}
static inline __nv_bfloat162 __high2bfloat162(__nv_bfloat162 v) {
  return {v.y, v.y};
}
static inline __nv_bfloat162 __lows2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) {
  return {a.x, b.x};
}
static inline __nv_bfloat162 __highs2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) {
  return {a.y, b.y};
}
