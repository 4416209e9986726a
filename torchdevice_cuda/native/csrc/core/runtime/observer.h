// Observers of streams, events and memory: parts that order work otherwise, or check its order.
//
// Without an observer, each call site costs one relaxed load. Observers are added once and never removed.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/core/Stream.h>
#include <c10/macros/Macros.h>
#include <c10/util/ArrayRef.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hostdevice {

struct EventState;
struct StreamState;

// The name of work whose code is not known: that of the program between compiled code, for example.
constexpr const char* kCodeOutsideOfOperators = "code outside of operators";

// A block of device memory, with the streams that record_stream() named.
struct ObservedBlock {
  char* at;
  size_t bytes;
  c10::DeviceIndex device;
  c10::StreamId stream;  // the stream that it is allocated on, and reused on
  const void* pool;      // identifies the pool that it belongs to
  const std::vector<c10::StreamId>& used_by;
};

// A tensor that work outside of operators accesses.
struct ObservedAccess {
  const void* at;
  size_t bytes;
  c10::ScalarType type;
  c10::IntArrayRef sizes;
  bool writes;
};

class StreamObserver {
 public:
  virtual ~StreamObserver() = default;
  StreamObserver() = default;
  StreamObserver(const StreamObserver&) = delete;
  StreamObserver& operator=(const StreamObserver&) = delete;

  // Order between streams. Called before the call takes effect, and without a lock; also for streams that are
  // capturing.
  virtual void record_event(const EventState&, const StreamState&) {}
  virtual void wait_for_event(const StreamState&, const EventState&) {}
  virtual void destroy_event(const EventState&) {}

  // Other work runs on a stream than calls of operators, which are intercepted (recorded.h): compiled code,
  // collectives. Called before it runs, with the accesses that are known by then, and for further ones later. The
  // stream may be one that only this library knows.
  virtual void run_work(const StreamState&, const char* /*name*/, const std::vector<ObservedAccess>&) {}

  // The host waits; called before it does.
  virtual void synchronize(const StreamState&) {}
  virtual void synchronize(const EventState&) {}
  virtual void synchronize(c10::DeviceIndex) {}
  // The host queries whether work is done. Called before the answer is determined, and with an answer.
  virtual void begin_query(const StreamState&) {}
  virtual void begin_query(const EventState&) {}
  virtual void end_query(const StreamState&, bool /*is_done*/) {}
  virtual void end_query(const EventState&, bool /*is_done*/) {}

  // Called before a block is allocated or freed, without a lock.
  virtual void begin_memory_call() {}
  // Memory. The allocator's lock is held: neither allocate or free device or pinned memory, nor run Python.
  virtual void allocate(const ObservedBlock&) {}
  virtual void free(const ObservedBlock&) {}
  // Memory is returned to the system, which waits for the device.
  virtual void unmap(char* /*at*/, size_t /*bytes*/) {}
  virtual void allocate_pinned(char* /*at*/, size_t /*bytes*/) {}
  virtual void free_pinned(char* /*at*/, size_t /*bytes*/) {}

  // Memory may be returned to the system next; called without a lock.
  virtual void begin_release(c10::DeviceIndex) {}

  // Graphs, which are identified by the id of their capture (captures.h).
  virtual void begin_capture(const StreamState& /*origin*/) {}
  virtual void launch_graph(uint64_t /*capture*/, const StreamState&) {}
  // A kernel of the program is captured on a stream; the graph numbers its kernels from 0.
  virtual void capture_kernel(const StreamState&, const char* /*name*/) {}
  // The graph has run a kernel of the program with these accesses.
  virtual void run_captured_kernel(uint64_t /*capture*/, size_t /*number*/, const std::vector<ObservedAccess>&) {}
  // The host has run the launched graph: its copies are in flight from now on.
  virtual void end_launch(uint64_t /*capture*/) {}
  virtual void destroy_graph(uint64_t /*capture*/) {}
};

constexpr size_t kMaxObservers = 4;
struct Observers {
  std::array<std::atomic<StreamObserver*>, kMaxObservers> all{};
  std::atomic<size_t> count{0};
};
extern Observers g_observers;

// Add an observer, which must live until the process ends. Observers are called in the order of their addition.
void add_observer(StreamObserver& observer);

inline bool is_observed() {
  return C10_UNLIKELY(g_observers.count.load(std::memory_order_relaxed) != 0);
}

// Call f with each observer.
template <class F>
void observe(F f) {
  if (!is_observed()) return;
  const auto count = g_observers.count.load(std::memory_order_acquire);
  for (size_t i = 0; i < count; i++) f(*g_observers.all[i].load(std::memory_order_relaxed));
}

}  // namespace hostdevice
