#pragma once
#include <c10/cuda/CUDAStream.h>

namespace c10::cuda {
inline namespace on_host {
inline DeviceIndex device_count() noexcept {
  int count = 0;
  cudaGetDeviceCount(&count);
  return static_cast<DeviceIndex>(count);
}
inline DeviceIndex device_count_ensure_non_zero() {
  return device_count();
}
inline void set_device(DeviceIndex device, bool = false) {
  C10_CUDA_CHECK(cudaSetDevice(device));
}
inline void device_synchronize() {
  C10_CUDA_CHECK(cudaDeviceSynchronize());
}
inline DeviceIndex ExchangeDevice(DeviceIndex to) {
  const auto from = current_device();
  set_device(to);
  return from;
}
inline DeviceIndex MaybeExchangeDevice(DeviceIndex to) {
  return ExchangeDevice(to);
}
inline cudaError_t SetDevice(DeviceIndex device, bool = false) {
  return cudaSetDevice(device);
}
inline cudaError_t MaybeSetDevice(DeviceIndex device) {
  return cudaSetDevice(device);
}
inline void stream_synchronize(cudaStream_t stream) {
  C10_CUDA_CHECK(cudaStreamSynchronize(stream));
}
inline int warp_size() {
  return 32;
}
}  // namespace on_host
}  // namespace c10::cuda
