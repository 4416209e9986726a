#pragma once
#include <c10/core/Event.h>
#include <c10/cuda/CUDAStream.h>

namespace at::cuda {
inline namespace on_host {
// PyTorch's own event of the device; where tensors are plain memory everything has happened already.
struct CUDAEvent {
  explicit CUDAEvent(unsigned flags = cudaEventDisableTiming) : timed_(!(flags & cudaEventDisableTiming)) {}
  void record() {
    record(c10::cuda::getCurrentCUDAStream());
  }
  void record(const c10::cuda::CUDAStream& stream) {
    if (!c10::cuda::host_cuda_registered()) return;
    if (!event_)
      event_.emplace(c10::DeviceType::CUDA, timed_ ? c10::EventFlag::BACKEND_DEFAULT : c10::EventFlag::PYTORCH_DEFAULT);
    event_->record(stream.unwrap());
  }
  void recordOnce(const c10::cuda::CUDAStream& stream) {
    if (!event_) record(stream);
  }
  void block(const c10::cuda::CUDAStream& stream) {
    if (event_) event_->block(stream.unwrap());
  }
  bool query() const {
    return !event_ || event_->query();
  }
  void synchronize() const {
    if (event_) event_->synchronize();
  }
  bool isCreated() const {
    return event_.has_value();
  }

 private:
  bool timed_;
  std::optional<c10::Event> event_;
};
}  // namespace on_host
}  // namespace at::cuda
