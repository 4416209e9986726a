// The order of collectives, for observers. Collectives run on streams of their own, as NCCL's do: such a stream waits
// for the one that is current at the call, and a wait for the work makes the current stream wait for it.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <vector>

#include "runtime/streams.h"

namespace hostdevice {

class ObservedWork {
 public:
  // Begin work of a device that writes and reads tensors, on a stream; `issue` is called between what the stream waits
  // for and what waits for it. Nothing is observed without observers.
  ObservedWork(
      StreamState& stream, const std::vector<at::Tensor>& written, const std::vector<at::Tensor>& read,
      const std::function<void()>& issue = {});
  ~ObservedWork();
  ObservedWork(const ObservedWork&) = delete;
  ObservedWork& operator=(const ObservedWork&) = delete;

  // Make the calling thread's current stream wait for the work.
  void block_current_stream() const;
  // The program has seen that the work is done.
  void note_completion() const;
  // Make the host wait for the work, where it runs later.
  void synchronize() const;
  // Complete a future of the work: those who wait for it wait for the work's stream.
  void complete(c10::ivalue::Future& future, const std::vector<at::Tensor>& outputs) const;

 private:
  const c10::DeviceIndex device_;
  const c10::StreamId stream_;
  EventState done_;
};

// Return a new future of a work with these outputs.
c10::intrusive_ptr<c10::ivalue::Future> make_future(const std::vector<at::Tensor>& outputs);

// Return the stream of a number, from 0, for collectives.
StreamState& collective_stream(c10::DeviceIndex device, int64_t number);

}  // namespace hostdevice
