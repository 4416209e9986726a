// Captures of graphs that are underway: which streams take part, and what may not be done meanwhile.
//
// One lock protects the table of captures and what is in them. It is taken by whoever finds that there is a capture at
// all, which everybody else pays one relaxed load for. No memory is allocated from a device while it is held.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <unordered_map>

#include "runtime/streams.h"

namespace hostdevice {

// cudaError_t values of a capture.
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

// Of which threads calls are refused that are unsafe while a capture is underway.
enum class CaptureMode : int { Global, ThreadLocal, Relaxed };

using CaptureId = uint64_t;  // 0: none

class Capture {
 public:
  Capture(StreamState& origin, CaptureMode mode) : origin_(&origin), mode_(mode), thread_(std::this_thread::get_id()) {}
  virtual ~Capture() = default;
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // A stream that takes part was given memory.
  virtual void allocated(void* address, size_t bytes) = 0;
  // Something that is no operator: it is done when the graph is replayed.
  virtual void add(std::string name, c10::DeviceIndex index, std::function<void()> work, bool computes) = 0;

  CaptureId id() const {
    return id_;
  }
  const StreamState& origin() const {
    return *origin_;
  }
  bool broken() const {
    return broken_.load(std::memory_order_relaxed);
  }

 private:
  friend struct Captures;
  // How much of every stream's work is done before what comes next: of forks and joins.
  using Clock = std::map<const StreamState*, uint64_t>;

  StreamState* origin_;
  CaptureMode mode_;
  std::thread::id thread_;
  CaptureId id_ = 0;
  std::atomic<bool> broken_{false};
  std::map<StreamState*, Clock> streams_;
  std::unordered_map<const EventState*, Clock> events_;
};

extern std::atomic<int> g_captures;
inline bool captures_underway() {
  return C10_UNLIKELY(g_captures.load(std::memory_order_relaxed) != 0);
}

// A call is being recorded or replayed on this thread: what it calls is part of it.
extern thread_local bool t_in_node;
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

// Every call of a device that would be part of a capture if its stream is.
inline bool may_be_captured() {
  return captures_underway() && !t_in_node;
}

void begin_capture(const std::shared_ptr<Capture>& capture);
// What is wrong with how it ends, if anything is; it has ended then, too.
void end_capture(Capture& capture);

// The capture that a stream takes part in, if any.
std::shared_ptr<Capture> capture_of(const StreamState& stream);
// The same of the calling thread's current stream; raises if the capture has failed before.
std::shared_ptr<Capture> current_capture(c10::DeviceIndex device);
// One that is underway, on whatever stream.
std::shared_ptr<Capture> find_capture(CaptureId id);
// 0: none, 1: underway, 2: failed. As cudaStreamIsCapturing counts them.
int capture_status(const StreamState& stream);
// Work was given to a stream that takes part.
void count_work(Capture& capture, const StreamState& stream);
// How much that is, in the capture that it takes part in; 0 if there is none.
uint64_t captured_work(const StreamState& stream);
// Whether what a stream is given next comes behind so much work of another in the same capture. False if that one takes
// no part: nobody can say.
bool comes_behind(const StreamState& stream, const StreamState& other, uint64_t work);

// ---- what is refused -----------------------------------------------------------------------------------------------

// Each of these fails the captures that it concerns, and raises.
void refuse_waiting_for(const StreamState& stream);
void refuse_waiting_for_device(c10::DeviceIndex device);
void refuse_asking(const EventState& event);
// A call that CUDA refuses to the threads that a capture's mode names: it asks the driver for something, or waits.
void refuse_unsafe_call();
// The same for a call that is safe where the stream takes part: memory, which then is the capture's.
void refuse_unsafe_call_beside(const StreamState& stream);
// A copy from or to memory of the host's that may not stay where it is.
[[noreturn]] void refuse_pageable_copy();
// Of a function that has no meaning in a capture; it goes on.
void refuse_in_capture(c10::DeviceIndex device, const char* what);

// ---- events --------------------------------------------------------------------------------------------------------

// Has the current stream sleep whenever a graph is replayed that it is being captured into, if it is; false if not.
bool record_sleep(c10::DeviceIndex device, int64_t cycles);
// The same for an event that is recorded or waited for whenever the graph is replayed.
bool record_event(const std::shared_ptr<EventState>& event, const StreamState& stream, bool waits);

void record_captured(EventState& event, const StreamState& stream);
void wait_captured(const EventState& event, StreamState& stream);

}  // namespace hostdevice
