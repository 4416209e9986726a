// Streams and events on a host timeline.
//
// Kernels run on the calling thread, so a stream is never behind with real work. What can make it busy is sleep(),
// and what waits for it: each stream knows the moment it becomes idle, and everything else follows from that.
//
// States are atomic or set once. Each device has a lock for the table of its external streams, and nothing else is
// locked while it is held.
#pragma once

#include <c10/core/Stream.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "runtime/device.h"

namespace hostdevice {

int64_t now_ns();

struct StreamState {
  std::atomic<int64_t> ready_ns{0};  // on now_ns()'s clock; in the past: idle
  c10::StreamId id = 0;
  c10::DeviceIndex device = 0;
  int priority = 0;
  std::atomic<uint64_t> capture{0};  // that it takes part in (captures.h); 0: none
};

struct EventState {
  std::atomic<int64_t> time_ns{-1};  // when the recorded work is done; -1: never recorded
  bool timing = false;
  std::atomic<c10::DeviceIndex> device{0};  // whose stream it was recorded in last
  std::atomic<uint64_t> capture{0};         // in which it was recorded last
};

constexpr int kStreamsPerPool = 32;
constexpr int kLowestPriority = 0;
constexpr int kHighestPriority = -3;

// Default streams have id 0. An id from outside (ExternalStream) is the handle itself, which is even.
c10::StreamId new_stream(c10::DeviceIndex device, int priority);
c10::StreamId current_stream(c10::DeviceIndex device);
c10::StreamId exchange_stream(c10::DeviceIndex device, c10::StreamId id);
StreamState& stream_state(c10::DeviceIndex device, c10::StreamId id);
int stream_priority(c10::DeviceIndex device, c10::StreamId id);
uint64_t stream_handle(c10::DeviceIndex device, c10::StreamId id);

bool stream_idle(const StreamState& stream);
// What a program asks for; not of a stream, or an event, of which a graph is being captured.
bool query_stream(const StreamState& stream);
void synchronize_stream(const StreamState& stream);
void synchronize_event(const EventState& event);
void wait_until(int64_t ns);
void synchronize_device(c10::DeviceIndex device);
// What is waited for before the streams of a device: collectives, which are not on the timeline.
extern void (*g_before_synchronizing)();
void sleep_current_stream(c10::DeviceIndex device, int64_t cycles);
// Have a stream become idle no earlier than so many nanoseconds from now; when that is.
int64_t keep_busy(StreamState& stream, int64_t ns);
// What a blocking device-to-host copy does: wait for the work in front of it. Free when nothing ever slept.
void synchronize_current_stream(c10::DeviceIndex device);

// Whether a stream was ever kept busy; most programs never do that, and nothing waits in them.
bool was_ever_busy();
// When the current stream has done what is in it; 0 if it never was busy.
int64_t current_stream_ready_ns(c10::DeviceIndex device);

// What torch.cuda.set_sync_debug_mode asks for: nothing, warnings, errors.
enum class SyncDebug : int { Off, Warn, Error };
extern std::atomic<int> g_sync_debug;
inline bool watches_synchronization() {
  return g_sync_debug.load(std::memory_order_relaxed) != static_cast<int>(SyncDebug::Off);
}
void tell_synchronization();
// A call is about to wait for the GPU, or would on one.
inline void synchronizing() {
  if (C10_UNLIKELY(watches_synchronization())) tell_synchronization();
}

// Across fork(), after the locks of memory.
void lock_streams_for_fork();
void unlock_streams_after_fork();

void event_record(EventState& event, StreamState& stream);
void event_block(const EventState& event, StreamState& stream);
// Called before the event goes.
void event_dropped(const EventState& event);
bool event_done(const EventState& event);
double event_elapsed_ms(const EventState& start, const EventState& end);

}  // namespace hostdevice
