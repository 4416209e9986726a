// Graphs: calls that are captured once and replayed many times, into the same memory.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "compat.h"
#include "graphs/journal.h"
#include "nodes/node.h"
#include "runtime/captures.h"

namespace hostdevice {

// A capture and the calls that it has recorded.
class Recording final : public Capture {
 public:
  using Capture::Capture;

  void allocated(void* address, size_t bytes) override;
  void call(
      const c10::OperatorHandle& op, const OperatorInfo& f, c10::DispatchKeySet keys, c10::DeviceIndex index,
      torch::jit::Stack* stack);
  void add(std::string name, c10::DeviceIndex index, std::function<void()> work, bool computes) override;
  // Add work that allocated memory.
  void add_with_memory(
      std::string name, c10::DeviceIndex index, std::function<void()> work, bool computes,
      CapturedAllocations allocations);

  void add_kernel(
      const char* name, c10::DeviceIndex index, std::function<void()> run, std::vector<const void*> pointers) override;

  // Begin a call of other code over device memory, which runs until end_foreign().
  void begin_foreign(const std::vector<std::pair<uintptr_t, size_t>>& memory);
  // `again` repeats the call; null if it failed. A kernel of the program has a name, and pointers among its arguments.
  void end_foreign(
      c10::DeviceIndex index, std::function<void()> again, const std::string& name, std::vector<const void*> pointers);

  // Whether it has kernels whose accesses are observed when they run.
  bool watches_kernels() const {
    return watched_kernels_ != 0;
  }

  Journal& journal() {
    return journal_;
  }
  std::vector<Node> take_nodes();

 private:
  // Return a kernel's work, which reports what it accesses if that is observed.
  std::function<void()> watch(
      const char* name, c10::DeviceIndex index, std::function<void()> run, std::vector<const void*> pointers);

  std::mutex mutex_;  // forward and backward run on different threads
  Journal journal_;
  std::vector<Node> nodes_;
  std::vector<const void*> foreign_;  // memory of the current foreign call
  CapturedAllocations foreign_allocations_;
  std::atomic<size_t> watched_kernels_{0};
};

class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Begin on the current stream of the current device. The graph keeps the pool until it is reset.
  void begin(PoolId pool, CaptureMode mode);
  // End the capture; throw if it is invalid.
  void end();
  void replay();
  void reset();

  // Add a generator whose draws are replayed too.
  void register_generator(const at::Generator& generator);

  // Whether the calling thread's current stream is the one that the capture began on.
  bool holds_current_stream() const;
  // Whether the current stream takes part in the capture.
  bool takes_current_stream() const;

  bool capturing() const {
    return recording_ != nullptr;
  }
  bool captured() const {
    return captured_;
  }
  // Return the names of the calls, in order.
  std::vector<std::string> names() const;

 private:
  void leave_capture();
  // End a capture that the program can no longer end.
  void abandon();
  void check_memory() const;
  // Whether a replay neither draws random numbers nor records events, which happens when it is launched, and its
  // accesses are known beforehand.
  bool can_run_later() const;

  std::shared_ptr<Recording> recording_;
  // A generator's state, which another generator may get later, and the number of words that the graph draws from it.
  struct Drawn {
    at::Generator state;
    uint64_t words = 0;
    std::array<c10::DataPtr, 2> kept = {};  // seed and offset, in versions in which each graph has its own
  };
  std::vector<Drawn> generators_;
  c10::DeviceIndex device_ = 0;
  PoolId pool_{0, 0};
  bool holds_pool_ = false, captured_ = false, watches_kernels_ = false;
  CaptureId capture_ = 0;  // the capture that it was made by
  std::mutex replaying_;
  std::shared_ptr<const std::vector<Node>> nodes_;  // shared with replays that run later
  std::vector<const void*> addresses_;              // of memory that does not belong to the graph
};

// Record calls while a capture is in progress, from now on.
void install_recording();

}  // namespace hostdevice
