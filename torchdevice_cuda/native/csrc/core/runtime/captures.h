// Graph captures in progress: the streams that take part, and the calls that CUDA forbids meanwhile.
//
// One lock protects the table of captures and their contents. Without a capture, a call pays one relaxed load and takes
// no lock. No device memory is allocated while the lock is held.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "runtime/streams.h"

namespace hostdevice {

// The cudaError_t values that captures raise.
enum class CaptureError : int {
  InvalidValue = 1,
  IllegalState = 401,
  IllegalAddress = 700,
  Unsupported = 900,
  Invalidated = 901,
  Merge = 902,
  Unmatched = 903,
  Unjoined = 904,
  Isolation = 905,
  Implicit = 906,
  CapturedEvent = 907,
  WrongThread = 908,
};
[[noreturn]] void throw_capture_error(CaptureError error);

// Selects the threads on which unsafe calls are refused during a capture.
enum class CaptureMode : int { Global, ThreadLocal, Relaxed };

using CaptureId = uint64_t;  // 0: none

class Capture {
 public:
  Capture(StreamState& origin, CaptureMode mode) : origin_(&origin), mode_(mode), thread_(std::this_thread::get_id()) {}
  virtual ~Capture() = default;
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // Record that a stream of the capture allocated memory.
  virtual void allocated(void* address, size_t bytes) = 0;
  // Add a node that is not an operator; a replay of the graph runs it.
  virtual void add(std::string name, c10::DeviceIndex index, std::function<void()> work, bool computes) = 0;
  // Add a kernel of the program, with the pointers among its arguments.
  virtual void add_kernel(
      const char* name, c10::DeviceIndex index, std::function<void()> run, std::vector<const void*> pointers) = 0;

  CaptureId id() const {
    return id_;
  }
  const StreamState& origin() const {
    return *origin_;
  }
  bool is_invalidated() const {
    return is_invalidated_.load(std::memory_order_relaxed);
  }

 private:
  friend struct Captures;
  // A vector clock of forks and joins: for every stream, how much of its work precedes the next work.
  using Clock = std::map<const StreamState*, uint64_t>;

  StreamState* origin_;
  CaptureMode mode_;
  std::thread::id thread_;
  CaptureId id_ = 0;
  std::atomic<bool> is_invalidated_{false};
  std::map<StreamState*, Clock> streams_;
  std::unordered_map<const EventState*, Clock> events_;
};

extern std::atomic<int> g_captures;
inline bool has_captures() {
  return C10_UNLIKELY(g_captures.load(std::memory_order_relaxed) != 0);
}

// Set while this thread captures or replays a node: the calls that it makes are part of that node.
extern thread_local bool t_in_node;

// True while this thread runs work that was issued earlier; and how many threads do.
extern thread_local bool t_in_deferred_work;
extern std::atomic<int> g_threads_in_deferred_work;
struct InNode {
  InNode() : saved(t_in_node) {
    t_in_node = true;
  }
  ~InNode() {
    t_in_node = saved;
  }
  InNode(const InNode&) = delete;
  InNode& operator=(const InNode&) = delete;
  bool saved;
};

// The captures in progress, and the parts that intercept every call (recorded.h).
extern std::atomic<int> g_interceptors;
// Return whether a call goes through `g_record`: its stream may be capturing, or a part intercepts all calls.
inline bool is_intercepted() {
  return C10_UNLIKELY(g_interceptors.load(std::memory_order_relaxed) != 0) && !t_in_node;
}

void begin_capture(const std::shared_ptr<Capture>& capture);
// End the capture; throw if it is invalid.
void end_capture(Capture& capture);

// Return the capture that a stream takes part in, or null.
std::shared_ptr<Capture> capture_of(const StreamState& stream);
// Return the capture of the calling thread's current stream; throw if it is invalidated.
std::shared_ptr<Capture> current_capture(c10::DeviceIndex device);
// Return a capture in progress by id, or null.
std::shared_ptr<Capture> find_capture(CaptureId id);
// Return cudaStreamIsCapturing's status. 0: none, 1: active, 2: invalidated.
int capture_status(const StreamState& stream);
// Count one piece of work on a stream of the capture.
void count_work(Capture& capture, const StreamState& stream);
// Return how much work the stream has in its capture; 0 without a capture.
uint64_t captured_work(const StreamState& stream);
// Return whether the next work on `stream` comes after this much work of `other` in the same capture. False if `other`
// is not part of that capture: the order is then unknown.
bool comes_after(const StreamState& stream, const StreamState& other, uint64_t work);

// ---- refused calls -------------------------------------------------------------------------------------------------

// Unless noted, each of these functions invalidates the captures that the call affects, and throws if there are any.
void refuse_waiting_for(const StreamState& stream);
void refuse_waiting_for_device(c10::DeviceIndex device);
void refuse_event_query(const EventState& event);
// Refuse a call that CUDA forbids on the threads that the capture mode names: it queries the driver or synchronizes.
void refuse_unsafe_call();
// Refuse such a call unless the stream is capturing: an allocation is allowed there and belongs to the capture.
void refuse_unsafe_call_unless_capturing(const StreamState& stream);
// Refuse a copy from or to pageable host memory, whose address may change before a replay.
[[noreturn]] void refuse_pageable_copy();
// Throw if the current stream is capturing; `what` names a function that cannot be captured. The capture stays valid.
void refuse_in_capture(c10::DeviceIndex device, const char* what);

// ---- events --------------------------------------------------------------------------------------------------------

// If the current stream is capturing, add a node that makes it sleep at each replay. Return whether it is capturing.
bool record_sleep(c10::DeviceIndex device, int64_t cycles);
// Do the same for an event that each replay records or waits for.
bool record_event(const std::shared_ptr<EventState>& event, const StreamState& stream, bool waits);

void record_captured(EventState& event, const StreamState& stream);
void wait_captured(const EventState& event, StreamState& stream);

}  // namespace hostdevice
