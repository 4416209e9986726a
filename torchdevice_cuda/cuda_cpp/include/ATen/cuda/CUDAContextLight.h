#pragma once
#include <ATen/cuda/Exceptions.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <host_cuda/current_blas.h>

namespace at::cuda {
inline namespace on_host {
inline int64_t getNumGPUs() {
  return c10::cuda::device_count();
}
inline bool is_available() {
  return c10::cuda::device_count() > 0;
}
inline int warp_size() {
  return 32;
}
inline cudaDeviceProp* getDeviceProperties(c10::DeviceIndex device) {
  static thread_local cudaDeviceProp properties;
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  return &properties;
}
inline cudaDeviceProp* getCurrentDeviceProperties() {
  return getDeviceProperties(c10::cuda::current_device());
}
inline bool canDeviceAccessPeer(c10::DeviceIndex, c10::DeviceIndex) {
  return true;
}
inline c10::Allocator* getCUDADeviceAllocator() {
  return c10::cuda::CUDACachingAllocator::get();
}
using c10::cuda::current_device;
using c10::cuda::device_count;
using c10::cuda::device_synchronize;
using c10::cuda::set_device;
}  // namespace on_host
}  // namespace at::cuda
