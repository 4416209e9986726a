// The calls of CUDA's runtime that extensions make. Device memory is the host's: a copy is a copy.
#pragma once

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "host_cuda/launch.h"

// What the library was compiled for.
#ifdef HOST_CUDA_ARCH
#define HOST_CUDA_CAPABILITY (HOST_CUDA_ARCH / 10)
#else
#define HOST_CUDA_CAPABILITY 70
#endif

typedef struct CUstream_st* cudaStream_t;
// Classes of programs have graphs as members; functions of graphs are refused where they are called.
typedef struct CUgraph_st* cudaGraph_t;
typedef struct CUgraphExec_st* cudaGraphExec_t;
typedef struct CUgraphNode_st* cudaGraphNode_t;
struct cudaKernelNodeParams {
  void* func;
  dim3 gridDim, blockDim;
  unsigned sharedMemBytes;
  void **kernelParams, **extra;
};
typedef void (*cudaHostFn_t)(void*);
struct CUevent_st;
typedef CUevent_st* cudaEvent_t;
typedef struct CUfunc_st* cudaFunction_t;

enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4
};
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9,
  cudaFuncAttributeClusterDimMustBeSet = 10,
  cudaFuncAttributeNonPortableClusterSizeAllowed = 14
};
enum cudaFuncCache {
  cudaFuncCachePreferNone,
  cudaFuncCachePreferShared,
  cudaFuncCachePreferL1,
  cudaFuncCachePreferEqual
};
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone = 0,
  cudaStreamCaptureStatusActive = 1,
  cudaStreamCaptureStatusInvalidated = 2
};
enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrMaxBlockDimX = 2,
  cudaDevAttrMaxBlockDimY = 3,
  cudaDevAttrMaxBlockDimZ = 4,
  cudaDevAttrMaxGridDimX = 5,
  cudaDevAttrMaxGridDimY = 6,
  cudaDevAttrMaxGridDimZ = 7,
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrTotalConstantMemory = 9,
  cudaDevAttrWarpSize = 10,
  cudaDevAttrMaxRegistersPerBlock = 12,
  cudaDevAttrClockRate = 13,
  cudaDevAttrGpuOverlap = 15,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrIntegrated = 18,
  cudaDevAttrCanMapHostMemory = 19,
  cudaDevAttrComputeMode = 20,
  cudaDevAttrConcurrentKernels = 31,
  cudaDevAttrMemoryClockRate = 36,
  cudaDevAttrGlobalMemoryBusWidth = 37,
  cudaDevAttrL2CacheSize = 38,
  cudaDevAttrMaxThreadsPerMultiProcessor = 39,
  cudaDevAttrUnifiedAddressing = 41,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
  cudaDevAttrMaxRegistersPerMultiprocessor = 82,
  cudaDevAttrManagedMemory = 83,
  cudaDevAttrConcurrentManagedAccess = 89,
  cudaDevAttrCooperativeLaunch = 95,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
  cudaDevAttrMaxBlocksPerMultiprocessor = 106,
  cudaDevAttrMaxPersistingL2CacheSize = 108,
  cudaDevAttrReservedSharedMemoryPerBlock = 111,
  cudaDevAttrMemoryPoolsSupported = 115,
  cudaDevAttrClusterLaunch = 120
};
enum cudaComputeMode {
  cudaComputeModeDefault = 0,
  cudaComputeModeExclusive = 1,
  cudaComputeModeProhibited = 2,
  cudaComputeModeExclusiveProcess = 3
};
struct cudaFuncAttributes {
  size_t sharedSizeBytes = 0, constSizeBytes = 0, localSizeBytes = 0;
  int maxThreadsPerBlock = 1024, numRegs = 32, ptxVersion = 70, binaryVersion = 70;
  int maxDynamicSharedSizeBytes = static_cast<int>(host_cuda::kSharedLimit);
};
struct cudaDeviceProp {
  char name[256] = "virtual GPU";
  size_t totalGlobalMem = 0, sharedMemPerBlock = host_cuda::kSharedLimit,
         sharedMemPerBlockOptin = host_cuda::kSharedOptIn;
  size_t sharedMemPerMultiprocessor = 228 << 10, totalConstMem = 64 << 10;
  int regsPerBlock = 65536, warpSize = 32, maxThreadsPerBlock = 1024, maxThreadsPerMultiProcessor = 2048;
  int maxThreadsDim[3] = {1024, 1024, 64}, maxGridSize[3] = {0x7fffffff, 65535, 65535};
  int pciBusID = 1, pciDeviceID = 0, pciDomainID = 0, integrated = 0, canMapHostMemory = 1, unifiedAddressing = 1;
  int managedMemory = 1, concurrentManagedAccess = 1, l2CacheSize = 50 << 20, memoryBusWidth = 5120, ECCEnabled = 0;
  int regsPerMultiprocessor = 65536, maxBlocksPerMultiProcessor = 32, asyncEngineCount = 3, isMultiGpuBoard = 0;
  int computePreemptionSupported = 1, accessPolicyMaxWindowSize = 128 << 20, persistingL2CacheMaxSize = 0;
  int clusterLaunch = 0, memoryPoolsSupported = 1, hostRegisterSupported = 1;
  int pageableMemoryAccess = 0, tccDriver = 0;
  size_t memPitch = 0x7fffffff, reservedSharedMemPerBlock = 1024, textureAlignment = 512, surfaceAlignment = 512;
  int major = 7, minor = 0, multiProcessorCount = 1, cooperativeLaunch = 1, concurrentKernels = 1;
};

constexpr unsigned cudaStreamDefault = 0, cudaStreamNonBlocking = 1;
constexpr unsigned cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2;
constexpr unsigned cudaHostAllocDefault = 0, cudaHostAllocPortable = 1, cudaHostAllocMapped = 2;
constexpr unsigned cudaMemAttachGlobal = 1;
#define cudaStreamLegacy ((cudaStream_t)0x1)
#define cudaStreamPerThread ((cudaStream_t)0x2)

#pragma GCC visibility push(hidden)
namespace host_cuda {

struct CallOnce final : Work {
  std::function<void()> call;
  void run_block() override {
    call();
  }
  Pointers list_pointers() const override {
    return {};
  }
};
inline void run_call(void* p) {
  static_cast<CallOnce*>(p)->call();
}
// In the order of a stream, or of the graph that it is captured into.
inline cudaError_t enqueue(cudaStream_t stream, const char* name, std::function<void()> call) {
  if (standing() != cudaSuccess) return returned(standing());
  const KernelAbi* device = kernel_abi();
  if (!device) {
    call();
    return cudaSuccess;
  }
  auto* work = new CallOnce;
  work->call = std::move(call);
  work->launch.name = name;
  return returned(static_cast<cudaError_t>(device->launch(stream, name, &run_call, &drop_work, work, nullptr, 0)));
}
inline void* plain_stream(cudaStream_t stream) {
  return reinterpret_cast<uintptr_t>(stream) <= 2 ? nullptr : static_cast<void*>(stream);
}

}  // namespace host_cuda
#pragma GCC visibility pop

struct CUevent_st {
  long long ns = 0;
  bool recorded = false;
};

static inline cudaError_t cudaGetLastError() {
  const auto stays = host_cuda::standing();
  const auto last = static_cast<cudaError_t>(host_cuda::last_error.exchange(cudaSuccess));
  return stays != cudaSuccess ? stays : last;
}
static inline cudaError_t cudaPeekAtLastError() {
  const auto stays = host_cuda::standing();
  return stays != cudaSuccess ? stays : static_cast<cudaError_t>(host_cuda::last_error.load());
}

static inline cudaError_t cudaGetDeviceCount(int* count) {
  const auto* s = host_cuda::kernel_abi();
  *count = s ? s->device_count() : 1;
  return cudaSuccess;
}
static inline cudaError_t cudaGetDevice(int* device) {
  const auto* s = host_cuda::kernel_abi();
  *device = s ? s->get_device() : 0;
  return cudaSuccess;
}
static inline cudaError_t cudaSetDevice(int device) {
  const auto* s = host_cuda::kernel_abi();
  if (s) return host_cuda::returned(static_cast<cudaError_t>(s->set_device(device)));
  return host_cuda::returned(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}
static inline cudaError_t cudaDeviceSynchronize() {
  if (const auto* s = host_cuda::kernel_abi())
    if (const int e = s->device_synchronize()) return host_cuda::returned(static_cast<cudaError_t>(e));
  return host_cuda::standing();
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const auto* s = host_cuda::kernel_abi())
    if (const int e = s->stream_synchronize(host_cuda::plain_stream(stream)))
      return host_cuda::returned(static_cast<cudaError_t>(e));
  return host_cuda::standing();
}
static inline cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const auto* s = host_cuda::kernel_abi();
  if (!s) return host_cuda::standing();
  return static_cast<cudaError_t>(s->stream_query(host_cuda::plain_stream(stream)));
}
static inline cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const auto* s = host_cuda::kernel_abi();
  *status = s && s->is_capturing(host_cuda::plain_stream(stream)) ? cudaStreamCaptureStatusActive
                                                                  : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
// Work is done where it is asked for: a stream that only this library knows needs a name and nothing more.
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = static_cast<cudaStream_t>(aligned_alloc(64, 64));
  return cudaSuccess;
}
static inline cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, 0);
}
static inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
static inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  free(stream);
  return cudaSuccess;
}
static inline cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return host_cuda::enqueue(stream, "cudaLaunchHostFunc", [=] { function(data); });
}

static inline long long host_cuda_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
static inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
static inline cudaError_t cudaEventCreate(cudaEvent_t* event, unsigned flags = 0) {
  return cudaEventCreateWithFlags(event, flags);
}
static inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
static inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t = nullptr) {
  event->ns = host_cuda_now();
  event->recorded = true;
  return host_cuda::standing();
}
static inline cudaError_t cudaEventSynchronize(cudaEvent_t) {
  return host_cuda::standing();
}
static inline cudaError_t cudaEventQuery(cudaEvent_t) {
  return host_cuda::standing();
}
static inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned = 0) {
  return host_cuda::standing();
}
static inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  if (!start->recorded || !end->recorded) return host_cuda::returned(cudaErrorInvalidResourceHandle);
  *ms = static_cast<float>(end->ns - start->ns) / 1e6f;
  return cudaSuccess;
}

template <class T>
static inline cudaError_t cudaMalloc(T** p, size_t bytes HOST_CUDA_SITE) {
  *p = bytes ? static_cast<T*>(aligned_alloc(256, (bytes + 255) / 256 * 256)) : nullptr;
  host_cuda::note_memory(*p, bytes, HOST_CUDA_SITE_WHERE);
  return host_cuda::returned(bytes && !*p ? cudaErrorMemoryAllocation : cudaSuccess);
}
static inline cudaError_t cudaFree(void* p) {
  host_cuda::forget_memory(p);
  free(p);
  return cudaSuccess;
}
template <class T>
static inline cudaError_t cudaMallocManaged(T** p, size_t bytes, unsigned = cudaMemAttachGlobal HOST_CUDA_SITE) {
  return cudaMalloc(p, bytes HOST_CUDA_SITE_PASSED);
}
template <class T>
static inline cudaError_t cudaMallocHost(T** p, size_t bytes, unsigned = 0 HOST_CUDA_SITE) {
  return cudaMalloc(p, bytes HOST_CUDA_SITE_PASSED);
}
template <class T>
static inline cudaError_t cudaHostAlloc(T** p, size_t bytes, unsigned = 0 HOST_CUDA_SITE) {
  return cudaMalloc(p, bytes HOST_CUDA_SITE_PASSED);
}
static inline cudaError_t cudaFreeHost(void* p) {
  return cudaFree(p);
}
template <class T>
static inline cudaError_t cudaMallocAsync(T** p, size_t bytes, cudaStream_t HOST_CUDA_SITE) {
  return cudaMalloc(p, bytes HOST_CUDA_SITE_PASSED);
}
static inline cudaError_t cudaFreeAsync(void* p, cudaStream_t) {
  return cudaFree(p);
}
static inline cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  *total = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  *available = *total / 2;
  return cudaSuccess;
}

static inline cudaError_t cudaMemcpyAsync(
    void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream = nullptr) {
  return host_cuda::enqueue(stream, "cudaMemcpyAsync", [=] { std::memmove(to, from, bytes); });
}
static inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  if (const auto e = cudaDeviceSynchronize()) return e;
  std::memmove(to, from, bytes);
  return cudaSuccess;
}
static inline cudaError_t cudaMemcpy2DAsync(
    void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height, cudaMemcpyKind,
    cudaStream_t stream = nullptr) {
  return host_cuda::enqueue(stream, "cudaMemcpy2DAsync", [=] {
    for (size_t i = 0; i < height; ++i)
      std::memmove(static_cast<char*>(to) + i * to_pitch, static_cast<const char*>(from) + i * from_pitch, width);
  });
}
static inline cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t stream = nullptr) {
  return host_cuda::enqueue(stream, "cudaMemsetAsync", [=] { std::memset(p, value, bytes); });
}
static inline cudaError_t cudaMemset(void* p, int value, size_t bytes) {
  return cudaMemsetAsync(p, value, bytes);
}
template <class T>
static inline cudaError_t cudaMemcpyToSymbol(
    T& symbol, const void* from, size_t bytes, size_t offset = 0, cudaMemcpyKind = cudaMemcpyHostToDevice) {
  if (offset + bytes > sizeof(T)) return host_cuda::returned(cudaErrorInvalidValue);
  std::memcpy(reinterpret_cast<char*>(const_cast<std::remove_cv_t<T>*>(&symbol)) + offset, from, bytes);
  return cudaSuccess;
}
template <class T>
static inline cudaError_t cudaMemcpyToSymbolAsync(
    T& symbol, const void* from, size_t bytes, size_t offset = 0, cudaMemcpyKind kind = cudaMemcpyHostToDevice,
    cudaStream_t = nullptr) {
  return cudaMemcpyToSymbol(symbol, from, bytes, offset, kind);
}
template <class T>
static inline cudaError_t cudaMemcpyFromSymbol(
    void* to, const T& symbol, size_t bytes, size_t offset = 0, cudaMemcpyKind = cudaMemcpyDeviceToHost) {
  if (offset + bytes > sizeof(T)) return host_cuda::returned(cudaErrorInvalidValue);
  std::memcpy(to, reinterpret_cast<const char*>(&symbol) + offset, bytes);
  return cudaSuccess;
}
template <class T>
static inline cudaError_t cudaGetSymbolAddress(void** address, const T& symbol) {
  *address = const_cast<void*>(static_cast<const void*>(&symbol));
  return cudaSuccess;
}
