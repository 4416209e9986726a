// Macros of CUB's that programs use.
#pragma once

#include "cub/version.cuh"
#include "cuda_runtime.h"

#define CUB_NAMESPACE_BEGIN namespace cub {
#define CUB_NAMESPACE_END }
#define CUB_NS_PREFIX
#define CUB_NS_POSTFIX
#define CUB_NS_QUALIFIER ::cub
#define CUB_RUNTIME_FUNCTION
#define CUB_LOG_WARP_THREADS(arch) 5
#define CUB_WARP_THREADS(arch) 32
#define CUB_PTX_LOG_WARP_THREADS 5
#define CUB_PTX_WARP_THREADS 32
#define CUB_PTX_LOG_SMEM_BANKS 5
#define CUB_PTX_SMEM_BANKS 32
#define CUB_PTX_ARCH HOST_CUDA_ARCH
#define CUB_MAX(a, b) (((a) > (b)) ? (a) : (b))
#define CUB_MIN(a, b) (((a) < (b)) ? (a) : (b))
#define CUB_QUOTIENT_FLOOR(x, y) ((x) / (y))
#define CUB_QUOTIENT_CEILING(x, y) (((x) + (y) - 1) / (y))
#define CUB_ROUND_UP_NEAREST(x, y) (CUB_QUOTIENT_CEILING(x, y) * (y))
#define CUB_ROUND_DOWN_NEAREST(x, y) (((x) / (y)) * (y))
#define CUB_STATIC_ASSERT(condition, text) static_assert(condition, #text)
#define CUB_PREVENT_MACRO_SUBSTITUTION
#define CubDebug(e) (e)
#define CubDebugExit(e) \
  if (e) exit(1)
#define _CubLog(format, ...) printf(format, __VA_ARGS__)
#ifndef _CCCL_DEVICE
#define _CCCL_HOST
#define _CCCL_DEVICE
#define _CCCL_HOST_DEVICE
#define _CCCL_FORCEINLINE inline __attribute__((always_inline))
#define _CCCL_TRAILING_REQUIRES(...)
#define _CCCL_PRAGMA_UNROLL_FULL()
#define _CCCL_PRAGMA_UNROLL(n)
#endif
