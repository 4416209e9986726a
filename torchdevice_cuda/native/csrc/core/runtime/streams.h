// Streams and events on a host timeline.
//
// Kernels run on the calling thread, so a stream never has real work outstanding. Only sleep(), and waiting for such a
// stream, make a stream busy: each stream stores the time when it becomes idle, and everything else follows from that.
//
// States are atomic or set once. Each device has a lock for the table of its external streams; no other lock is taken
// while it is held.
#pragma once

#include <c10/core/Stream.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "runtime/device.h"

namespace hostdevice {

// The host's clock. A simulated GPU's clock adds an offset to it: time that the program would have waited for the GPU,
// less the time that computing took here.
int64_t now_ns();
extern std::atomic<int64_t> g_clock_offset_ns;
// Waits advance the clock instead of passing real time.
void simulate_time(bool on);

struct StreamState {
  std::atomic<int64_t> ready_ns{0};  // on now_ns()'s clock; in the past: idle
  c10::StreamId id = 0;
  c10::DeviceIndex device = 0;
  int priority = 0;
  std::atomic<uint64_t> capture{0};            // the capture that it takes part in (captures.h); 0: none
  std::atomic<bool> has_deferred_work{false};  // set by a part that runs work later than it is issued
};

struct EventState {
  std::atomic<int64_t> time_ns{-1};  // when the recorded work is done; -1: never recorded
  bool timing = false;
  std::atomic<c10::DeviceIndex> device{0};  // device of the stream that last recorded it
  std::atomic<uint64_t> capture{0};         // the capture that last recorded it
};

// Streams that the program cannot name: collectives of each process group run on one, and so does its communication
// with each other rank. Their ids are even and negative.
constexpr bool is_collective_stream(c10::StreamId id) {
  return id < 0 && id % 2 == 0;
}

constexpr int kStreamsPerPool = 32;
constexpr int kLowestPriority = 0;
constexpr int kHighestPriority = -3;

// Default streams have id 0. The id of an ExternalStream is its handle, which is even.
c10::StreamId new_stream(c10::DeviceIndex device, int priority);
c10::StreamId current_stream(c10::DeviceIndex device);
c10::StreamId exchange_stream(c10::DeviceIndex device, c10::StreamId id);
StreamState& stream_state(c10::DeviceIndex device, c10::StreamId id);
int stream_priority(c10::DeviceIndex device, c10::StreamId id);
uint64_t stream_handle(c10::DeviceIndex device, c10::StreamId id);

bool stream_idle(const StreamState& stream);
// Query or synchronize for the program; these throw if the stream or event is being captured.
bool query_stream(const StreamState& stream);
void synchronize_stream(const StreamState& stream);
void synchronize_event(const EventState& event);
void wait_until(int64_t ns);
void synchronize_device(c10::DeviceIndex device);
// Called before waiting for a device's streams: waits for collectives, which are not on the timeline.
extern void (*g_before_synchronizing)();
void sleep_current_stream(c10::DeviceIndex device, int64_t cycles);
// Keep a stream busy for at least this many nanoseconds from now; return when it becomes idle.
int64_t keep_busy(StreamState& stream, int64_t ns);
// Wait for earlier work, like a blocking device-to-host copy. Costs nothing if no stream ever slept.
void synchronize_current_stream(c10::DeviceIndex device);

// Return whether any stream was ever busy. In most programs none is, and nothing waits.
bool was_ever_busy();
// Return when the current stream becomes idle; 0 if no stream was ever busy.
int64_t current_stream_ready_ns(c10::DeviceIndex device);

// The modes of torch.cuda.set_sync_debug_mode: off, warnings, errors.
enum class SyncDebug : int { Off, Warn, Error };
extern std::atomic<int> g_sync_debug;
inline bool is_sync_debug_on() {
  return g_sync_debug.load(std::memory_order_relaxed) != static_cast<int>(SyncDebug::Off);
}
void warn_synchronization();
// Warn or throw before a call that waits for the GPU, or would wait on a real one.
inline void check_sync_debug() {
  if (C10_UNLIKELY(is_sync_debug_on())) warn_synchronization();
}

// Lock and unlock for fork(), after the locks of memory.
void lock_streams_for_fork();
void unlock_streams_after_fork();

void event_record(EventState& event, StreamState& stream);
void event_block(const EventState& event, StreamState& stream);
// Call before the event is destroyed.
void report_event_deletion(const EventState& event);
bool query_event(const EventState& event);
double event_elapsed_ms(const EventState& start, const EventState& end);

}  // namespace hostdevice
