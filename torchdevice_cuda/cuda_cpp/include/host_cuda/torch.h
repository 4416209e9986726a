// What PyTorch's headers define for CUDA's compiler alone.
#pragma once

#include <ATen/core/TensorAccessor.h>
#include <c10/macros/Macros.h>

#include "cuda_runtime.h"

#if !defined(C10_LAUNCH_BOUNDS_0)
#define C10_LAUNCH_BOUNDS_0
#define C10_LAUNCH_BOUNDS_1(...)
#define C10_LAUNCH_BOUNDS_2(...)
#endif
#undef C10_WARP_SIZE
#define C10_WARP_SIZE 32
#undef CUDA_KERNEL_ASSERT
#define CUDA_KERNEL_ASSERT(condition) \
  ((condition) ? (void)0 : ::host_cuda::assertion_failed(#condition, __FILE__, __LINE__, __func__))
#undef CUDA_KERNEL_ASSERT_MSG
#define CUDA_KERNEL_ASSERT_MSG(condition, message) CUDA_KERNEL_ASSERT(condition)

#if !defined(__CUDACC__) && !defined(__HIPCC__)
namespace at {
template <typename T>
struct RestrictPtrTraits {
  typedef T* __restrict__ PtrType;
};
}  // namespace at
#endif
