#pragma once
#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

namespace c10::cuda::CUDACachingAllocator {
inline namespace on_host {
inline Allocator* get() {
  return GetAllocator(host_cuda_registered() ? DeviceType::CUDA : DeviceType::CPU);
}
inline void* raw_alloc(size_t bytes) {
  return get()->raw_allocate(bytes);
}
inline void* raw_alloc_with_stream(size_t bytes, cudaStream_t) {
  return raw_alloc(bytes);
}
inline void raw_delete(void* p) {
  get()->raw_deallocate(p);
}
inline void recordStream(const DataPtr&, CUDAStream) {}
inline void emptyCache() {}
}  // namespace on_host
}  // namespace c10::cuda::CUDACachingAllocator
