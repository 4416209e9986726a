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
  *blocks = threads > 0 ? std::min(2048 / threads, 32) : 0;
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
  if (const auto* s = host_cuda::kernel_abi()) p->multiProcessorCount = s->multiprocessors();
  p->major = HOST_CUDA_CAPABILITY / 10;
  p->minor = HOST_CUDA_CAPABILITY % 10;
  return cudaSuccess;
}
static inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  cudaGetDeviceProperties(&p, device);
  switch (attribute) {
#define HOST_CUDA_ATTRIBUTE(name, number) \
  case cudaDevAttr##name:                 \
    *value = static_cast<int>(number);    \
    return cudaSuccess;
    HOST_CUDA_ATTRIBUTE(MaxThreadsPerBlock, p.maxThreadsPerBlock)
    HOST_CUDA_ATTRIBUTE(MaxBlockDimX, p.maxThreadsDim[0])
    HOST_CUDA_ATTRIBUTE(MaxBlockDimY, p.maxThreadsDim[1])
    HOST_CUDA_ATTRIBUTE(MaxBlockDimZ, p.maxThreadsDim[2])
    HOST_CUDA_ATTRIBUTE(MaxGridDimX, p.maxGridSize[0])
    HOST_CUDA_ATTRIBUTE(MaxGridDimY, p.maxGridSize[1])
    HOST_CUDA_ATTRIBUTE(MaxGridDimZ, p.maxGridSize[2])
    HOST_CUDA_ATTRIBUTE(MaxSharedMemoryPerBlock, p.sharedMemPerBlock)
    HOST_CUDA_ATTRIBUTE(TotalConstantMemory, p.totalConstMem)
    HOST_CUDA_ATTRIBUTE(WarpSize, p.warpSize)
    HOST_CUDA_ATTRIBUTE(MaxRegistersPerBlock, p.regsPerBlock)
    HOST_CUDA_ATTRIBUTE(ClockRate, 1000000)
    HOST_CUDA_ATTRIBUTE(GpuOverlap, p.asyncEngineCount > 0)
    HOST_CUDA_ATTRIBUTE(MultiProcessorCount, p.multiProcessorCount)
    HOST_CUDA_ATTRIBUTE(Integrated, p.integrated)
    HOST_CUDA_ATTRIBUTE(CanMapHostMemory, p.canMapHostMemory)
    HOST_CUDA_ATTRIBUTE(ComputeMode, cudaComputeModeDefault)
    HOST_CUDA_ATTRIBUTE(ConcurrentKernels, p.concurrentKernels)
    HOST_CUDA_ATTRIBUTE(MemoryClockRate, 2619000)
    HOST_CUDA_ATTRIBUTE(GlobalMemoryBusWidth, p.memoryBusWidth)
    HOST_CUDA_ATTRIBUTE(L2CacheSize, p.l2CacheSize)
    HOST_CUDA_ATTRIBUTE(MaxThreadsPerMultiProcessor, p.maxThreadsPerMultiProcessor)
    HOST_CUDA_ATTRIBUTE(UnifiedAddressing, p.unifiedAddressing)
    HOST_CUDA_ATTRIBUTE(ComputeCapabilityMajor, p.major)
    HOST_CUDA_ATTRIBUTE(ComputeCapabilityMinor, p.minor)
    HOST_CUDA_ATTRIBUTE(MaxSharedMemoryPerMultiprocessor, p.sharedMemPerMultiprocessor)
    HOST_CUDA_ATTRIBUTE(MaxRegistersPerMultiprocessor, p.regsPerMultiprocessor)
    HOST_CUDA_ATTRIBUTE(ManagedMemory, p.managedMemory)
    HOST_CUDA_ATTRIBUTE(ConcurrentManagedAccess, p.concurrentManagedAccess)
    HOST_CUDA_ATTRIBUTE(CooperativeLaunch, p.cooperativeLaunch)
    HOST_CUDA_ATTRIBUTE(MaxSharedMemoryPerBlockOptin, p.sharedMemPerBlockOptin)
    HOST_CUDA_ATTRIBUTE(MaxBlocksPerMultiprocessor, p.maxBlocksPerMultiProcessor)
    HOST_CUDA_ATTRIBUTE(MaxPersistingL2CacheSize, p.persistingL2CacheMaxSize)
    HOST_CUDA_ATTRIBUTE(ReservedSharedMemoryPerBlock, p.reservedSharedMemPerBlock)
    HOST_CUDA_ATTRIBUTE(MemoryPoolsSupported, p.memoryPoolsSupported)
    HOST_CUDA_ATTRIBUTE(ClusterLaunch, p.clusterLaunch)
#undef HOST_CUDA_ATTRIBUTE
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
