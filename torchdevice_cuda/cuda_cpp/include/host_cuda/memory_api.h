// Calls of CUDA's runtime about memory that packages make besides those of api.h: pinned, pitched, pooled, of peers.
#pragma once

#include "host_cuda/api.h"

constexpr unsigned cudaHostAllocWriteCombined = 4;
constexpr unsigned cudaHostRegisterDefault = 0, cudaHostRegisterPortable = 1, cudaHostRegisterMapped = 2,
                   cudaHostRegisterIoMemory = 4, cudaHostRegisterReadOnly = 8;
constexpr unsigned cudaMemAttachHost = 2, cudaMemAttachSingle = 4;
enum cudaMemoryType {
  cudaMemoryTypeUnregistered = 0,
  cudaMemoryTypeHost = 1,
  cudaMemoryTypeDevice = 2,
  cudaMemoryTypeManaged = 3
};
struct cudaPointerAttributes {
  cudaMemoryType type = cudaMemoryTypeUnregistered;
  int device = 0;
  void *devicePointer = nullptr, *hostPointer = nullptr;
};
enum cudaMemLocationType { cudaMemLocationTypeInvalid = 0, cudaMemLocationTypeDevice = 1, cudaMemLocationTypeHost = 2 };
struct cudaMemLocation {
  cudaMemLocationType type;
  int id;
};
enum cudaMemoryAdvise {
  cudaMemAdviseSetReadMostly = 1,
  cudaMemAdviseUnsetReadMostly = 2,
  cudaMemAdviseSetPreferredLocation = 3,
  cudaMemAdviseUnsetPreferredLocation = 4,
  cudaMemAdviseSetAccessedBy = 5,
  cudaMemAdviseUnsetAccessedBy = 6
};
enum cudaMemPoolAttr {
  cudaMemPoolReuseFollowEventDependencies = 1,
  cudaMemPoolReuseAllowOpportunistic = 2,
  cudaMemPoolReuseAllowInternalDependencies = 3,
  cudaMemPoolAttrReleaseThreshold = 4
};
typedef struct CUmemPoolHandle_st* cudaMemPool_t;
struct cudaExtent {
  size_t width, height, depth;
};
struct cudaPitchedPtr {
  void* ptr;
  size_t pitch, xsize, ysize;
};
static inline cudaExtent make_cudaExtent(size_t width, size_t height, size_t depth) {
  return {width, height, depth};
}
static inline cudaPitchedPtr make_cudaPitchedPtr(void* p, size_t pitch, size_t width, size_t height) {
  return {p, pitch, width, height};
}

static inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
  *attributes = cudaPointerAttributes{};
  const auto* s = host_cuda::kernel_abi();
  const char* begin = nullptr;
  size_t bytes = 0;
  const auto kind = s ? s->find_memory(p, &begin, &bytes) : host_cuda::Memory::kDevice;
  if (kind == host_cuda::Memory::kOther) return cudaSuccess;
  cudaGetDevice(&attributes->device);
  attributes->type = kind == host_cuda::Memory::kDevice ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  attributes->devicePointer = const_cast<void*>(p);
  if (kind == host_cuda::Memory::kReached) attributes->hostPointer = const_cast<void*>(p);
  return cudaSuccess;
}
static inline cudaError_t cudaHostRegister(void*, size_t, unsigned) {
  return cudaSuccess;
}
static inline cudaError_t cudaHostUnregister(void*) {
  return cudaSuccess;
}
template <class T>
static inline cudaError_t cudaHostGetDevicePointer(T** device, void* host, unsigned) {
  *device = static_cast<T*>(host);
  return cudaSuccess;
}
static inline cudaError_t cudaHostGetFlags(unsigned* flags, void*) {
  *flags = cudaHostAllocDefault;
  return cudaSuccess;
}
template <class T>
static inline cudaError_t cudaMallocPitch(T** p, size_t* pitch, size_t width, size_t height HOST_CUDA_SITE) {
  *pitch = (width + 511) / 512 * 512;
  return cudaMalloc(p, *pitch * height HOST_CUDA_SITE_PASSED);
}
static inline cudaError_t cudaMalloc3D(cudaPitchedPtr* p, cudaExtent extent HOST_CUDA_SITE) {
  *p = {nullptr, 0, extent.width, extent.height};
  return cudaMallocPitch(&p->ptr, &p->pitch, extent.width, extent.height * extent.depth HOST_CUDA_SITE_PASSED);
}
static inline cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  *pool = nullptr;
  return cudaSuccess;
}
static inline cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return cudaSuccess;
}
template <class T>
static inline cudaError_t cudaMallocFromPoolAsync(T** p, size_t bytes, cudaMemPool_t, cudaStream_t HOST_CUDA_SITE) {
  return cudaMalloc(p, bytes HOST_CUDA_SITE_PASSED);
}
template <class Where>
static inline cudaError_t cudaMemAdvise(const void*, size_t, cudaMemoryAdvise, Where) {
  return cudaSuccess;
}
template <class Where>
static inline cudaError_t cudaMemPrefetchAsync(const void*, size_t, Where, unsigned, cudaStream_t = nullptr) {
  return cudaSuccess;
}
static inline cudaError_t cudaMemPrefetchAsync(const void*, size_t, int, cudaStream_t = nullptr) {
  return cudaSuccess;
}

static inline cudaError_t cudaMemcpy2D(
    void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height, cudaMemcpyKind kind) {
  const auto e = cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind);
  return e != cudaSuccess ? e : cudaDeviceSynchronize();
}
static inline cudaError_t cudaMemcpyPeerAsync(
    void* to, int, const void* from, int, size_t bytes, cudaStream_t stream = nullptr) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}
static inline cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t bytes) {
  return cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice);
}
static inline cudaError_t cudaMemset2DAsync(
    void* p, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream = nullptr) {
  return host_cuda::enqueue(stream, "cudaMemset2DAsync", [=] {
    for (size_t i = 0; i < height; ++i) std::memset(static_cast<char*>(p) + i * pitch, value, width);
  });
}
static inline cudaError_t cudaMemset2D(void* p, size_t pitch, int value, size_t width, size_t height) {
  return cudaMemset2DAsync(p, pitch, value, width, height);
}
template <class T>
static inline cudaError_t cudaMemcpyFromSymbolAsync(
    void* to, const T& symbol, size_t bytes, size_t offset = 0, cudaMemcpyKind kind = cudaMemcpyDeviceToHost,
    cudaStream_t = nullptr) {
  return cudaMemcpyFromSymbol(to, symbol, bytes, offset, kind);
}
template <class T>
static inline cudaError_t cudaGetSymbolSize(size_t* bytes, const T&) {
  *bytes = sizeof(T);
  return cudaSuccess;
}
