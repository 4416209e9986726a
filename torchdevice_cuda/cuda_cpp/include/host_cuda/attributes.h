// What can be asked of the device and of a kernel, and set.
#pragma once

#include "host_cuda/api.h"

static inline cudaError_t host_cuda_allow_shared(int bytes) {
  if (bytes < 0 || static_cast<size_t>(bytes) > host_cuda::kSharedOptIn)
    return host_cuda::returned(cudaErrorInvalidValue);
  if (static_cast<size_t>(bytes) > host_cuda::shared_allowed.load())
    host_cuda::shared_allowed.store(static_cast<size_t>(bytes));
  return cudaSuccess;
}
template <class F>
static inline cudaError_t cudaFuncSetAttribute(F, cudaFuncAttribute attribute, int value) {
  return attribute == cudaFuncAttributeMaxDynamicSharedMemorySize ? host_cuda_allow_shared(value) : cudaSuccess;
}
template <class F>
static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, F) {
  *attributes = cudaFuncAttributes{};
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(host_cuda::shared_allowed.load());
  return cudaSuccess;
}
template <class F>
static inline cudaError_t cudaFuncSetCacheConfig(F, cudaFuncCache) {
  return cudaSuccess;
}
template <class F>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, F, int threads, size_t) {
  *blocks = threads > 0 ? 2048 / threads : 0;
  return cudaSuccess;
}
template <class F>
static inline cudaError_t cudaOccupancyMaxPotentialBlockSize(int* grid, int* block, F, size_t = 0, int limit = 0) {
  *block = limit > 0 && limit < 1024 ? limit : 1024;
  const auto* s = host_cuda::kernel_abi();
  *grid = 2 * (s ? s->multiprocessors() : 1);
  return cudaSuccess;
}

static inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  *p = cudaDeviceProp{};
  size_t available = 0;
  cudaMemGetInfo(&available, &p->totalGlobalMem);
  if (const auto* s = host_cuda::kernel_abi()) {
    p->multiProcessorCount = s->multiprocessors();
    p->major = HOST_CUDA_CAPABILITY / 10;
    p->minor = HOST_CUDA_CAPABILITY % 10;
  }
  return cudaSuccess;
}
static inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  cudaGetDeviceProperties(&p, device);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
      *value = p.maxThreadsPerBlock;
      return cudaSuccess;
    case cudaDevAttrMaxGridDimX:
      *value = p.maxGridSize[0];
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(p.sharedMemPerBlock);
      return cudaSuccess;
    case cudaDevAttrWarpSize:
      *value = p.warpSize;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = p.multiProcessorCount;
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = p.maxThreadsPerMultiProcessor;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = p.major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = p.minor;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(p.sharedMemPerMultiprocessor);
      return cudaSuccess;
    case cudaDevAttrCooperativeLaunch:
      *value = 0;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(p.sharedMemPerBlockOptin);
      return cudaSuccess;
  }
  return host_cuda::returned(cudaErrorInvalidValue);
}
static inline cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
static inline cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
static inline cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return cudaSuccess;
}
