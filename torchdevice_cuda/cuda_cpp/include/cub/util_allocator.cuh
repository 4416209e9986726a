#pragma once

#include "cub/util_type.cuh"

namespace cub {

// Memory of the device. Nothing is kept: the host's allocator does that.
struct CachingDeviceAllocator {
  template <class... A>
  explicit CachingDeviceAllocator(A...) {}
  CachingDeviceAllocator() = default;
  cudaError_t DeviceAllocate(int, void** p, size_t bytes, cudaStream_t = nullptr) {
    return cudaMalloc(p, bytes);
  }
  cudaError_t DeviceAllocate(void** p, size_t bytes, cudaStream_t = nullptr) {
    return cudaMalloc(p, bytes);
  }
  cudaError_t DeviceFree(int, void* p) {
    return cudaFree(p);
  }
  cudaError_t DeviceFree(void* p) {
    return cudaFree(p);
  }
  cudaError_t FreeAllCached() {
    return cudaSuccess;
  }
};

}  // namespace cub
