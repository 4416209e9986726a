// Calls of CUDA's runtime about devices, streams and launches that packages make besides those of api.h.
#pragma once

#include "host_cuda/attributes.h"
#include "host_cuda/kept_kernels.h"

enum cudaLimit {
  cudaLimitStackSize = 0,
  cudaLimitPrintfFifoSize = 1,
  cudaLimitMallocHeapSize = 2,
  cudaLimitDevRuntimeSyncDepth = 3,
  cudaLimitDevRuntimePendingLaunchCount = 4,
  cudaLimitMaxL2FetchGranularity = 5,
  cudaLimitPersistingL2CacheSize = 6
};
enum cudaSharedMemConfig {
  cudaSharedMemBankSizeDefault = 0,
  cudaSharedMemBankSizeFourByte = 1,
  cudaSharedMemBankSizeEightByte = 2
};
enum cudaDeviceP2PAttr {
  cudaDevP2PAttrPerformanceRank = 1,
  cudaDevP2PAttrAccessSupported = 2,
  cudaDevP2PAttrNativeAtomicSupported = 3
};
constexpr unsigned cudaDeviceScheduleAuto = 0, cudaDeviceScheduleSpin = 1, cudaDeviceScheduleYield = 2,
                   cudaDeviceScheduleBlockingSync = 4, cudaDeviceBlockingSync = 4, cudaDeviceMapHost = 8;
constexpr unsigned cudaOccupancyDefault = 0, cudaOccupancyDisableCachingOverride = 1;
constexpr unsigned cudaEventInterprocess = 4, cudaEventRecordDefault = 0, cudaEventWaitDefault = 0;

// The name by which older programs call cudaDeviceSynchronize.
static inline cudaError_t cudaThreadSynchronize() {
  return cudaDeviceSynchronize();
}
static inline cudaError_t cudaDeviceReset() {
  return cudaDeviceSynchronize();
}
static inline cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return cudaSetDevice(device);
}
static inline cudaError_t cudaSetDeviceFlags(unsigned) {
  return cudaSuccess;
}
static inline cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  *flags = cudaDeviceScheduleAuto;
  return cudaSuccess;
}
static inline cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) {
  return cudaSuccess;
}
static inline cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  *value = limit == cudaLimitStackSize ? 1024 : 8 << 20;
  return cudaSuccess;
}
static inline cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) {
  return cudaSuccess;
}
static inline cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) {
  return cudaSuccess;
}
template <class F>
static inline cudaError_t cudaFuncSetSharedMemConfig(F, cudaSharedMemConfig) {
  return cudaSuccess;
}
static inline cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  return cudaSuccess;
}
static inline cudaError_t cudaDeviceDisablePeerAccess(int) {
  return cudaSuccess;
}
static inline cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr, int, int) {
  *value = 1;
  return cudaSuccess;
}
static inline cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return cudaSuccess;
}
static inline cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  snprintf(text, static_cast<size_t>(length), "0000:%02x:00.0", static_cast<unsigned>(device) + 1);
  return cudaSuccess;
}

typedef void (*cudaStreamCallback_t)(cudaStream_t stream, cudaError_t status, void* data);
static inline cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t call, void* data, unsigned) {
  return host_cuda::enqueue(stream, "cudaStreamAddCallback", [=] { call(stream, cudaSuccess, data); });
}
static inline cudaError_t cudaStreamGetFlags(cudaStream_t, unsigned* flags) {
  *flags = cudaStreamDefault;
  return cudaSuccess;
}
static inline cudaError_t cudaStreamGetPriority(cudaStream_t, int* priority) {
  *priority = 0;
  return cudaSuccess;
}
static inline cudaError_t cudaStreamGetDevice(cudaStream_t, int* device) {
  return cudaGetDevice(device);
}
static inline cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream = nullptr, unsigned = 0) {
  return cudaEventRecord(event, stream);
}
static inline cudaError_t cudaProfilerStart() {
  return cudaSuccess;
}
static inline cudaError_t cudaProfilerStop() {
  return cudaSuccess;
}

template <class F>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, F kernel, int threads, size_t shared, unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, threads, shared);
}
template <class F>
static inline cudaError_t cudaOccupancyMaxPotentialBlockSizeWithFlags(
    int* grid, int* block, F kernel, size_t shared = 0, int limit = 0, unsigned = 0) {
  return cudaOccupancyMaxPotentialBlockSize(grid, block, kernel, shared, limit);
}
template <class F, class Bytes>
static inline cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(
    int* grid, int* block, F kernel, Bytes, int limit = 0) {
  return cudaOccupancyMaxPotentialBlockSize(grid, block, kernel, 0, limit);
}
template <class F>
static inline cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, F, int, int) {
  *bytes = host_cuda::kSharedOptIn;
  return cudaSuccess;
}

// Launches with attributes. Blocks of a cooperative one may wait for each other, clusters are refused; as kernels run
// one after the other, other attributes change nothing.
enum cudaLaunchAttributeID {
  cudaLaunchAttributeIgnore = 0,
  cudaLaunchAttributeAccessPolicyWindow = 1,
  cudaLaunchAttributeCooperative = 2,
  cudaLaunchAttributeSynchronizationPolicy = 3,
  cudaLaunchAttributeClusterDimension = 4,
  cudaLaunchAttributeClusterSchedulingPolicyPreference = 5,
  cudaLaunchAttributeProgrammaticStreamSerialization = 6,
  cudaLaunchAttributeProgrammaticEvent = 7,
  cudaLaunchAttributePriority = 8
};
union cudaLaunchAttributeValue {
  char pad[64];
  int cooperative, priority, programmaticStreamSerializationAllowed, clusterSchedulingPolicyPreference;
  struct {
    unsigned x, y, z;
  } clusterDim;
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  char pad[8 - sizeof(cudaLaunchAttributeID)];
  cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};
typedef cudaLaunchConfig_t cudaLaunchConfig_st;

#pragma GCC visibility push(hidden)
namespace host_cuda {

// Whether all blocks of a launch are on the GPU at once, as they have to be to wait for each other.
inline cudaError_t check_residence(dim3 grid, dim3 block) {
  const auto* device = kernel_abi();
  const uint64_t threads = uint64_t{block.x} * block.y * block.z, blocks = uint64_t{grid.x} * grid.y * grid.z;
  const uint64_t multiprocessors = device ? static_cast<uint64_t>(device->multiprocessors()) : 1;
  int resident = 0;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, nullptr, static_cast<int>(threads), 0);
  return blocks > multiprocessors * static_cast<uint64_t>(resident) ? returned(cudaErrorCooperativeLaunchTooLarge)
                                                                    : cudaSuccess;
}
inline bool is_cooperative(const cudaLaunchConfig_t& config) {
  return std::any_of(config.attrs, config.attrs + config.numAttrs, [](const cudaLaunchAttribute& one) {
    return one.id == cudaLaunchAttributeCooperative && one.val.cooperative;
  });
}
inline cudaError_t check_attributes(const cudaLaunchConfig_t& config) {
  if (is_cooperative(config))
    if (const auto wrong = check_residence(config.gridDim, config.blockDim)) return wrong;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const auto& one = config.attrs[i];
    if (one.id != cudaLaunchAttributeClusterDimension) continue;
    if (one.val.clusterDim.x * one.val.clusterDim.y * one.val.clusterDim.z <= 1) continue;
    fprintf(stderr, "cudaLaunchKernelEx: a cluster of blocks is not supported here\n");
    return returned(cudaErrorNotSupported);
  }
  return cudaSuccess;
}

}  // namespace host_cuda
#pragma GCC visibility pop

template <class... P, class... A>
static inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(P...), A&&... arguments) {
  if (const auto wrong = host_cuda::check_attributes(*config)) return wrong;
  std::tuple<std::decay_t<P>...> all(std::forward<A>(arguments)...);
  return std::apply(
      [&](auto&... each) {
        void* addresses[] = {const_cast<void*>(static_cast<const void*>(&each))..., nullptr};
        return host_cuda::launch_packed(
            "cudaLaunchKernelEx", kernel,
            {config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream,
             host_cuda::is_cooperative(*config)},
            addresses);
      },
      all);
}
template <class... P>
static inline cudaError_t cudaLaunchCooperativeKernel(
    void (*kernel)(P...), dim3 grid, dim3 block, void** arguments, size_t shared = 0, cudaStream_t stream = nullptr) {
  if (const auto wrong = host_cuda::check_residence(grid, block)) return wrong;
  return host_cuda::launch_packed(
      "cudaLaunchCooperativeKernel", kernel, {grid, block, shared, stream, true}, arguments);
}
static inline cudaError_t cudaLaunchKernel(
    const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared = 0, cudaStream_t stream = nullptr) {
  return host_cuda::launch_kept(kernel, {grid, block, shared, stream}, arguments);
}
static inline cudaError_t cudaLaunchCooperativeKernel(
    const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared = 0, cudaStream_t stream = nullptr) {
  if (const auto wrong = host_cuda::check_residence(grid, block)) return wrong;
  return host_cuda::launch_kept(kernel, {grid, block, shared, stream, true}, arguments);
}
static inline void cudaGridDependencySynchronize() {}
static inline void cudaTriggerProgrammaticLaunchCompletion() {}
