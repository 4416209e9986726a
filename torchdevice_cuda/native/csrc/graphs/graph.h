// A graph: calls that were captured once and are replayed many times, into the same memory.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "compat.h"
#include "graphs/journal.h"
#include "graphs/node.h"
#include "runtime/captures.h"

namespace hostdevice {

// A capture, with what it has recorded.
class Recording final : public Capture {
 public:
  using Capture::Capture;

  void allocated(void* address, size_t bytes) override;
  void call(
      const c10::OperatorHandle& op, const Facts& f, c10::DispatchKeySet keys, c10::DeviceIndex index,
      torch::jit::Stack* stack);
  void add(std::string name, c10::DeviceIndex index, std::function<void()> work, bool computes) override;
  // The same of something that was given memory.
  void add_with_memory(
      std::string name, c10::DeviceIndex index, std::function<void()> work, bool computes, CapturedAllocations tape);

  // A call of somebody else's code over device memory: from here on it is made, until it has ended.
  void begin_foreign(const std::vector<std::pair<uintptr_t, size_t>>& memory);
  // `again` makes it again; null if it failed.
  void end_foreign(c10::DeviceIndex index, std::function<void()> again);

  Journal& journal() {
    return journal_;
  }
  std::vector<Node> take_nodes();

 private:
  std::mutex mutex_;  // forward and backward are on different threads
  Journal journal_;
  std::vector<Node> nodes_;
  std::vector<const void*> foreign_;  // memory of the call that is being made
  CapturedAllocations foreign_tape_;
};

class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // On the current stream of the current device. The graph holds the pool until it is reset.
  void begin(PoolId pool, CaptureMode mode);
  // Raises what is wrong with the capture; it has ended then, too.
  void end();
  void replay();
  void reset();

  // A generator whose draws are replayed too.
  void register_generator(const at::Generator& generator);

  // Whether the calling thread's current stream is the one that the capture began on.
  bool holds_current_stream() const;
  // Whether it takes part at all.
  bool takes_current_stream() const;

  bool capturing() const {
    return recording_ != nullptr;
  }
  bool captured() const {
    return captured_;
  }
  // What the calls are called, in order.
  std::vector<std::string> names() const;

 private:
  void leave_capture();
  // Ends a capture that nobody can end any more.
  void abandon();
  void check_memory() const;

  std::shared_ptr<Recording> recording_;
  // A generator's state, which another may have later, and what the graph draws from it.
  struct Drawn {
    at::Generator state;
    uint64_t words = 0;
    std::array<c10::DataPtr, 2> kept = {};  // seed and offset, where each graph has its own
  };
  std::vector<Drawn> generators_;
  c10::DeviceIndex device_ = 0;
  PoolId pool_{0, 0};
  bool holds_pool_ = false, captured_ = false;
  std::mutex replaying_;
  std::vector<Node> nodes_;
  std::vector<const void*> addresses_;  // of memory that is somebody else's
};

// From here on calls are recorded while a capture is underway.
void install_recording();

}  // namespace hostdevice
