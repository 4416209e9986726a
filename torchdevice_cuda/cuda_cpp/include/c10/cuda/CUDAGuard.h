// Guards of the current device and stream. Where tensors are plain memory they have nothing to do.
#pragma once
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <optional>

namespace c10::cuda {
inline namespace on_host {

struct OptionalCUDAGuard {
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(std::optional<Device> device) {
    if (device) set_device(*device);
  }
  explicit OptionalCUDAGuard(std::optional<DeviceIndex> index) {
    if (index) set_index(*index);
  }
  OptionalCUDAGuard(const OptionalCUDAGuard&) = delete;
  OptionalCUDAGuard& operator=(const OptionalCUDAGuard&) = delete;

  void set_device(Device device) {
    if (!host_cuda_registered()) return;
    TORCH_CHECK(device.is_cuda(), "Expected a CUDA device, but got ", device);
    guard_->reset_device(device);
  }
  void reset_device(Device device) {
    set_device(device);
  }
  void set_index(DeviceIndex index) {
    set_device(Device(DeviceType::CUDA, index));
  }
  void reset() {
    guard_.emplace();  // what was there puts the device back
  }
  std::optional<Device> original_device() const {
    return guard_->original_device();
  }
  std::optional<Device> current_device() const {
    return guard_->current_device();
  }

 private:
  std::optional<c10::OptionalDeviceGuard> guard_{std::in_place};
};

struct CUDAGuard : OptionalCUDAGuard {
  CUDAGuard() = delete;
  explicit CUDAGuard(DeviceIndex index) {
    set_index(index);
  }
  explicit CUDAGuard(Device device) {
    set_device(device);
  }
};

struct OptionalCUDAStreamGuard {
  OptionalCUDAStreamGuard() = default;
  explicit OptionalCUDAStreamGuard(Stream stream) {
    reset_stream(stream);
  }
  explicit OptionalCUDAStreamGuard(std::optional<Stream> stream) {
    if (stream) reset_stream(*stream);
  }
  void reset_stream(Stream stream) {
    if (host_cuda_registered()) guard_.reset_stream(stream);
  }
  void reset() {
    guard_.reset();
  }

 private:
  c10::OptionalStreamGuard guard_;
};
struct CUDAStreamGuard : OptionalCUDAStreamGuard {
  using OptionalCUDAStreamGuard::OptionalCUDAStreamGuard;
};

}  // namespace on_host
}  // namespace c10::cuda

namespace at::cuda {
using c10::cuda::CUDAGuard;
using c10::cuda::CUDAStreamGuard;
using c10::cuda::OptionalCUDAGuard;
using c10::cuda::OptionalCUDAStreamGuard;
}  // namespace at::cuda
