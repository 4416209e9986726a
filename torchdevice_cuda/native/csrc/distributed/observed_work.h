// The order of collectives, for observers. Collectives run on a stream of their own, as NCCL's do: it waits for the
// stream that is current at the call, and a wait for the work makes the current stream wait for it.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "runtime/streams.h"

namespace hostdevice {

class ObservedWork {
 public:
  // Begin work that writes these tensors. Nothing is done without observers.
  explicit ObservedWork(const std::vector<at::Tensor>& written);
  ~ObservedWork();
  ObservedWork(const ObservedWork&) = delete;
  ObservedWork& operator=(const ObservedWork&) = delete;

  // Make the calling thread's current stream wait for the work.
  void block_current_stream() const;
  // The program has seen that the work is done.
  void note_completion() const;

 private:
  c10::DeviceIndex device_ = -1;  // -1: not observed
  EventState done_;
};

}  // namespace hostdevice
