#pragma once
#include <c10/core/DeviceGuard.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>

namespace c10::cuda {
inline namespace on_host {

// Where tensors are plain memory, no device of CUDA's is registered, and there is one stream.
inline bool host_cuda_registered() {
  return c10::impl::hasDeviceGuardImpl(DeviceType::CUDA);
}
inline DeviceIndex current_device() {
  int device = 0;
  cudaGetDevice(&device);
  return static_cast<DeviceIndex>(device);
}

class CUDAStream {
 public:
  enum Unchecked { UNCHECKED };
  explicit CUDAStream(Stream stream) : stream_(stream) {
    TORCH_CHECK(stream_.device_type() == DeviceType::CUDA);
  }
  explicit CUDAStream(Unchecked, Stream stream) : stream_(stream) {}
  bool operator==(const CUDAStream& other) const noexcept {
    return unwrap() == other.unwrap();
  }
  bool operator!=(const CUDAStream& other) const noexcept {
    return unwrap() != other.unwrap();
  }
  operator cudaStream_t() const {
    return stream();
  }
  operator Stream() const {
    return unwrap();
  }
  DeviceType device_type() const {
    return DeviceType::CUDA;
  }
  DeviceIndex device_index() const {
    return stream_.device_index();
  }
  Device device() const {
    return Device(DeviceType::CUDA, device_index());
  }
  StreamId id() const {
    return stream_.id();
  }
  bool query() const {
    return cudaStreamQuery(stream()) == cudaSuccess;
  }
  void synchronize() const {
    C10_CUDA_CHECK(cudaStreamSynchronize(stream()));
  }
  bool is_capturing() const {
    cudaStreamCaptureStatus status{cudaStreamCaptureStatusNone};
    C10_CUDA_CHECK(cudaStreamIsCapturing(stream(), &status));
    return status != cudaStreamCaptureStatusNone;
  }
  cudaStream_t stream() const {
    const auto* s = host_cuda::kernel_abi();
    return s ? static_cast<cudaStream_t>(s->stream_handle(device_index(), id())) : nullptr;
  }
  Stream unwrap() const {
    return stream_;
  }
  struct c10::StreamData3 pack3() const {
    return stream_.pack3();
  }
  static CUDAStream unpack3(StreamId id, DeviceIndex device, DeviceType type) {
    return CUDAStream(Stream::unpack3(id, device, type));
  }

 private:
  Stream stream_;
};

inline DeviceIndex host_cuda_index(DeviceIndex device) {
  return device < 0 ? current_device() : device;
}
inline CUDAStream getDefaultCUDAStream(DeviceIndex device = -1) {
  return CUDAStream(Stream(Stream::DEFAULT, Device(DeviceType::CUDA, host_cuda_index(device))));
}
inline CUDAStream getCurrentCUDAStream(DeviceIndex device = -1) {
  if (!host_cuda_registered()) return getDefaultCUDAStream(device);
  return CUDAStream(
      c10::impl::VirtualGuardImpl(DeviceType::CUDA).getStream(Device(DeviceType::CUDA, host_cuda_index(device))));
}
inline CUDAStream getStreamFromPool(const int priority, DeviceIndex device = -1) {
  const auto* s = host_cuda::kernel_abi();
  if (!s) return getDefaultCUDAStream(device);
  device = host_cuda_index(device);
  return CUDAStream(Stream(Stream::UNSAFE, Device(DeviceType::CUDA, device), s->new_stream(device, priority)));
}
inline CUDAStream getStreamFromPool(const bool high = false, DeviceIndex device = -1) {
  return getStreamFromPool(high ? -1 : 0, device);
}
inline CUDAStream getStreamFromExternal(cudaStream_t stream, DeviceIndex device) {
  return CUDAStream(
      Stream(Stream::UNSAFE, Device(DeviceType::CUDA, host_cuda_index(device)), reinterpret_cast<StreamId>(stream)));
}
inline void setCurrentCUDAStream(CUDAStream stream) {
  if (host_cuda_registered()) c10::impl::VirtualGuardImpl(DeviceType::CUDA).exchangeStream(stream.unwrap());
}
inline std::ostream& operator<<(std::ostream& out, const CUDAStream& s) {
  return out << s.unwrap();
}

}  // namespace on_host
}  // namespace c10::cuda

namespace at::cuda {
using c10::cuda::CUDAStream;
using c10::cuda::getCurrentCUDAStream;
using c10::cuda::getDefaultCUDAStream;
using c10::cuda::getStreamFromExternal;
using c10::cuda::getStreamFromPool;
using c10::cuda::setCurrentCUDAStream;
}  // namespace at::cuda
