#include "runtime/captures.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "compat.h"
#include "runtime/observer.h"

namespace hostdevice {

std::atomic<int> g_captures{0};
std::atomic<int> g_interceptors{0};
thread_local bool t_in_node = false;
thread_local bool t_in_deferred_work = false;
std::atomic<int> g_threads_in_deferred_work{0};

namespace {

struct CaptureMessage {
  CaptureError error;
  const char *name, *text;
};
constexpr CaptureMessage kCaptureMessages[] = {
    {CaptureError::InvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {CaptureError::IllegalState, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
    {CaptureError::IllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {CaptureError::Unsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {CaptureError::Invalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {CaptureError::Merge, "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {CaptureError::Unmatched, "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {CaptureError::Unjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {CaptureError::Isolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {CaptureError::Implicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {CaptureError::CapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {CaptureError::WrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
};

}  // namespace

void throw_capture_error(CaptureError error) {
  for (const auto& message : kCaptureMessages) {
    if (message.error != error) continue;
    throw_accelerator_error(
        static_cast<int>(error),
        std::string("CUDA error: ") + message.text + "\nSearch for `" + message.name +
            "' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.\n"
            "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might "
            "be incorrect.\n"
            "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
            "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n");
  }
  TORCH_INTERNAL_ASSERT(false, "unknown capture error ", static_cast<int>(error));
}

// The captures in progress. Every member function except all() requires the lock.
struct Captures {
  std::mutex mutex;
  std::map<CaptureId, std::shared_ptr<Capture>> active;
  CaptureId last = 0;

  using Lock = std::unique_lock<std::mutex>;

  static Captures& all() {
    static auto* one = new Captures;
    return *one;
  }

  Capture* of(const StreamState& stream) const {
    return find(stream.capture.load(std::memory_order_acquire));
  }
  Capture* find(CaptureId id) const {
    const auto it = id ? active.find(id) : active.end();
    return it == active.end() ? nullptr : it->second.get();
  }
  [[noreturn]] static void fail(Capture& capture, CaptureError error) {
    capture.is_invalidated_.store(true);
    throw_capture_error(error);
  }
  // Return whether the capture's mode forbids unsafe calls on the calling thread.
  static bool checks_this_thread(const Capture& c) {
    return c.mode_ == CaptureMode::Global ||
        (c.mode_ == CaptureMode::ThreadLocal && c.thread_ == std::this_thread::get_id());
  }

  // Invalidate all captures that forbid unsafe calls on the calling thread, and throw if there are any.
  void refuse_this_thread() {
    bool any = false;
    for (auto& [id, c] : active) {
      if (!checks_this_thread(*c)) continue;
      c->is_invalidated_.store(true);
      any = true;
    }
    if (any) throw_capture_error(CaptureError::Unsupported);
  }

  void refuse_device(c10::DeviceIndex device) {
    bool any = false;
    for (auto& [id, c] : active) {
      if (c->origin_->device != device) continue;
      c->is_invalidated_.store(true);
      any = true;
    }
    if (any) throw_capture_error(CaptureError::Unsupported);
  }

  static void count(Capture& c, const StreamState& stream) {
    c.streams_[const_cast<StreamState*>(&stream)][&stream]++;
  }

  // Return how much captured work of `other` precedes the next work on `stream`.
  static uint64_t done(const Capture& c, const StreamState& stream, const StreamState& other) {
    const auto clock = c.streams_.find(const_cast<StreamState*>(&stream));
    if (clock == c.streams_.end()) return 0;
    const auto found = clock->second.find(&other);
    return found == clock->second.end() ? 0 : found->second;
  }

  void begin(const std::shared_ptr<Capture>& c) {
    if (of(*c->origin_)) throw_capture_error(CaptureError::IllegalState);
    c->id_ = ++last;
    active.emplace(c->id_, c);
    c->streams_[c->origin_];
    c->origin_->capture.store(c->id_, std::memory_order_release);
    g_captures.fetch_add(1);
    g_interceptors.fetch_add(1);
  }

  void end(Capture& c) {
    const bool is_invalidated = c.is_invalidated();
    const bool elsewhere = c.mode_ != CaptureMode::Relaxed && c.thread_ != std::this_thread::get_id();
    auto& end = c.streams_[c.origin_];
    bool joined = true;
    for (auto& [stream, clock] : c.streams_) {
      stream->capture.store(0, std::memory_order_release);
      const auto done = clock.find(stream);
      if (stream != c.origin_ && done != clock.end()) joined = joined && end[stream] >= done->second;
    }
    g_captures.fetch_sub(1);
    g_interceptors.fetch_sub(1);
    const auto kept = active.extract(c.id_);
    if (is_invalidated) throw_capture_error(CaptureError::Invalidated);
    if (!joined) throw_capture_error(CaptureError::Unjoined);
    if (elsewhere) throw_capture_error(CaptureError::WrongThread);
  }

  static void merge(Capture::Clock& into, const Capture::Clock& from) {
    for (const auto& [stream, done] : from) into[stream] = std::max(into[stream], done);
  }

  void record(EventState& event, const StreamState& stream) {
    Capture* c = of(stream);
    if (c && c->is_invalidated()) throw_capture_error(CaptureError::Invalidated);
    event.capture.store(c ? c->id_ : 0);
    if (c) c->events_[&event] = c->streams_[const_cast<StreamState*>(&stream)];
  }

  void wait(const EventState& event, StreamState& stream) {
    Capture* const theirs = find(event.capture.load());
    Capture* const ours = of(stream);
    for (Capture* c : {ours, theirs})
      if (c && c->is_invalidated()) throw_capture_error(CaptureError::Invalidated);
    if (ours && event.capture.load() == 0) fail(*ours, CaptureError::Isolation);
    if (!theirs && event.capture.load() != 0) throw_capture_error(CaptureError::InvalidValue);
    if (!theirs) return;
    if (ours && ours != theirs) {
      theirs->is_invalidated_.store(true);
      fail(*ours, CaptureError::Merge);
    }
    merge(theirs->streams_[&stream], theirs->events_[&event]);
    stream.capture.store(theirs->id_, std::memory_order_release);
  }
};

void begin_capture(const std::shared_ptr<Capture>& capture) {
  observe([&](StreamObserver& o) { o.begin_capture(capture->origin()); });
  auto& all = Captures::all();
  const Captures::Lock lock(all.mutex);
  all.begin(capture);
}

void end_capture(Capture& capture) {
  auto& all = Captures::all();
  const Captures::Lock lock(all.mutex);
  all.end(capture);
}

std::shared_ptr<Capture> find_capture(CaptureId id) {
  auto& all = Captures::all();
  const Captures::Lock lock(all.mutex);
  const auto it = all.active.find(id);
  return it == all.active.end() ? nullptr : it->second;
}

std::shared_ptr<Capture> capture_of(const StreamState& stream) {
  const auto id = stream.capture.load(std::memory_order_acquire);
  return id ? find_capture(id) : nullptr;
}

std::shared_ptr<Capture> current_capture(c10::DeviceIndex device) {
  auto found = capture_of(stream_state(device, current_stream(device)));
  if (found && found->is_invalidated()) throw_capture_error(CaptureError::Invalidated);
  return found;
}

int capture_status(const StreamState& stream) {
  const auto found = capture_of(stream);
  if (!found) return 0;
  return found->is_invalidated() ? 2 : 1;
}

void count_work(Capture& capture, const StreamState& stream) {
  auto& all = Captures::all();
  const Captures::Lock lock(all.mutex);
  Captures::count(capture, stream);
}

uint64_t captured_work(const StreamState& stream) {
  auto& all = Captures::all();
  const Captures::Lock lock(all.mutex);
  Capture* c = all.of(stream);
  return c ? Captures::done(*c, stream, stream) : 0;
}

bool comes_after(const StreamState& stream, const StreamState& other, uint64_t work) {
  auto& all = Captures::all();
  const Captures::Lock lock(all.mutex);
  Capture* c = all.of(stream);
  return c && c == all.of(other) && (&stream == &other || Captures::done(*c, stream, other) >= work);
}

void refuse_waiting_for(const StreamState& stream) {
  if (!has_captures()) return;
  auto& all = Captures::all();
  const Captures::Lock lock(all.mutex);
  Capture* c = all.of(stream);
  if (c && c->is_invalidated()) throw_capture_error(CaptureError::Invalidated);
  if (c) Captures::fail(*c, CaptureError::Unsupported);
  all.refuse_this_thread();
}

void refuse_waiting_for_device(c10::DeviceIndex device) {
  if (!has_captures()) return;
  auto& all = Captures::all();
  const Captures::Lock lock(all.mutex);
  all.refuse_device(device);
}

void refuse_event_query(const EventState& event) {
  const auto id = event.capture.load(std::memory_order_acquire);
  if (!has_captures() && !id) return;
  auto& all = Captures::all();
  const Captures::Lock lock(all.mutex);
  if (Capture* c = all.find(id)) Captures::fail(*c, CaptureError::CapturedEvent);
  if (id) throw_capture_error(CaptureError::InvalidValue);
  all.refuse_this_thread();
}

void refuse_unsafe_call() {
  if (!has_captures()) return;
  auto& all = Captures::all();
  const Captures::Lock lock(all.mutex);
  all.refuse_this_thread();
}

void refuse_unsafe_call_unless_capturing(const StreamState& stream) {
  if (has_captures() && !stream.capture.load(std::memory_order_acquire)) refuse_unsafe_call();
}

void refuse_pageable_copy() {
  TORCH_CHECK(
      false,
      "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. Please use "
      "tensor.pin_memory() or allocate the tensor with pin_memory=True.");
}

void refuse_in_capture(c10::DeviceIndex device, const char* what) {
  if (!has_captures()) return;
  const int status = capture_status(stream_state(device, current_stream(device)));
  TORCH_CHECK(
      status == 0, what,
      " during CUDA graph capture. If you need this call to be captured, please file an issue. Current "
      "cudaStreamCaptureStatus: cudaStreamCaptureStatus",
      status == 1 ? "Active" : "Invalidated");
}

void record_captured(EventState& event, const StreamState& stream) {
  auto& all = Captures::all();
  const Captures::Lock lock(all.mutex);
  all.record(event, stream);
}

void wait_captured(const EventState& event, StreamState& stream) {
  auto& all = Captures::all();
  const Captures::Lock lock(all.mutex);
  all.wait(event, stream);
}

bool record_sleep(c10::DeviceIndex device, int64_t cycles) {
  if (!has_captures()) return false;
  device = resolve(device);
  const auto capture = current_capture(device);
  if (!capture) return false;
  capture->add("sleep", device, [=] { sleep_current_stream(device, cycles); }, false);
  return true;
}

bool record_event(const std::shared_ptr<EventState>& event, const StreamState& stream, bool waits) {
  if (!has_captures()) return false;
  const auto capture = capture_of(stream);
  if (!capture) return false;
  const auto index = stream.device;
  const auto again = [=] {
    auto& now = stream_state(index, current_stream(index));
    waits ? event_block(*event, now) : event_record(*event, now);
  };
  capture->add(waits ? "wait for an event" : "an event", index, again, false);
  return true;
}

}  // namespace hostdevice
