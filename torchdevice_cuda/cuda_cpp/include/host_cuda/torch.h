// What PyTorch's headers define for CUDA's compiler alone.
#pragma once

#include "host_cuda/torch_api_begin.h"

#include <ATen/core/TensorAccessor.h>
#include <c10/macros/Macros.h>

#include "host_cuda/torch_api_end.h"

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
#if __has_include(<torch/headeronly/core/TensorAccessor.h>)  // since 2.10
#define HOST_CUDA_ACCESSORS torch::headeronly
#else
#define HOST_CUDA_ACCESSORS at
#endif
namespace HOST_CUDA_ACCESSORS {
template <typename T>
struct RestrictPtrTraits {
  typedef T* __restrict__ PtrType;
};
}  // namespace HOST_CUDA_ACCESSORS
namespace at {
using HOST_CUDA_ACCESSORS::RestrictPtrTraits;
}
#undef HOST_CUDA_ACCESSORS
#endif
