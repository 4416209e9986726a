// CUDA's runtime, of the host. Code that the translator has not seen gets the calls and the types, not the language.
#pragma once
// Programs test for the include guards of NVIDIA's headers.
#define __CUDA_RUNTIME_API_H__
#define __DRIVER_TYPES_H__

#ifndef CUDART_VERSION
#define CUDART_VERSION 13000
#endif

#define __host__
#define __grid_constant__
#define __nv_pure__ __attribute__((pure))
#define __inline_hint__
#define __device_builtin__
#define __cudart_builtin__
#if !defined(__clang__)
#define __builtin_assume(condition) ((void)0)
#endif
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __maxnreg__(...)
// The translator reads these (cuda_cpp/linkage.py, translation.py).
#ifndef HOST_CUDA_TRANSLATED
#define __device__
#define __constant__
#define __managed__
#define __global__
#define __shared__
#endif
#define CUDARTAPI
#define CUDART_CB

#include "host_cuda/types.h"
//
#include "host_cuda/api.h"
#include "host_cuda/attributes.h"
#include "host_cuda/device_api.h"
#include "host_cuda/memory_api.h"
