// Activities: work on the device and calls of CUDA's runtime. A profiler records each of them; a report only adds them
// up (ledger.h).
//
// The profiler is in a higher layer: it starts the recording and collects the list. One lock protects the list and is
// held only while an activity is appended. When neither a profiler nor a report is active, the cost is one relaxed
// load.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/macros/Macros.h>
#include <c10/util/ApproximateClock.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/ledger.h"

namespace hostdevice {

struct EventState;
struct StreamState;

enum class ActivityKind : uint8_t { Runtime, Kernel, Memcpy };

struct Activity {
  ActivityKind kind = ActivityKind::Runtime;
  std::string name;
  c10::approx_time_t start = 0, end = 0;
  int64_t delay_ns = 0;        // from `start` until the stream was free and the work began
  int64_t extra_ns = 0;        // duration beyond `end`: a sleep that the host does not wait for
  uint32_t correlation = 0;    // shared by a call and the work that it launched
  uint64_t op = 0, range = 0;  // the profiler's ids of the enclosing operator and of the program's range; 0: none
  int32_t thread = 0;
  c10::DeviceIndex device = 0;
  c10::StreamId stream = 0;
  int64_t bytes = -1;      // copies only
  int graph_node = -1;     // index of the node in a replayed graph
  bool of_stream = false;  // the call takes a stream
  // For a call that waits for an event: the event, the call that recorded it, and the stream it was recorded on.
  uint64_t event = 0;
  uint32_t recorded = 0;
  c10::StreamId recorded_on = 0;
  bool launches = false;  // the call launches work on the device
};

// The listeners: a profiler (kRecording) records every activity, a report (kCounting) adds them up.
constexpr uint8_t kRecording = 1, kCounting = 2;
extern std::atomic<uint8_t> g_listeners;
void set_listener(uint8_t who, bool on);
inline bool is_profiled() {
  return C10_UNLIKELY(g_listeners.load(std::memory_order_relaxed) != 0);
}
inline bool is_recording() {
  return (g_listeners.load(std::memory_order_relaxed) & kRecording) != 0;
}
inline bool is_counted() {
  return C10_UNLIKELY((g_listeners.load(std::memory_order_relaxed) & kCounting) != 0);
}

void begin_activities();
std::vector<Activity> end_activities();
// Pause or resume the recording.
void pause_activities(bool paused);

// Track the operators and the program's ranges that enclose the calling thread, by the profiler's ids. Both nest.
void enter_op(uint64_t id);
void leave_op();
void enter_range(uint64_t id);
void leave_range();

// A call of CUDA's runtime. Nothing is recorded if the name is null.
class RuntimeCall {
 public:
  // The call concerns the whole device unless it names a stream.
  explicit RuntimeCall(const char* name, const StreamState* stream = nullptr) {
    if (is_profiled()) begin(name, stream);
  }
  ~RuntimeCall() {
    if (C10_UNLIKELY(name_ != nullptr)) end();
  }
  // Record that the call records this event, or waits for it.
  void records(const EventState& event) {
    if (C10_UNLIKELY(name_ != nullptr)) remember(event);
  }
  void waits_for(const EventState& event) {
    if (C10_UNLIKELY(name_ != nullptr)) event_ = &event;
  }
  RuntimeCall(const RuntimeCall&) = delete;
  RuntimeCall& operator=(const RuntimeCall&) = delete;

 private:
  void begin(const char* name, const StreamState* stream);
  void remember(const EventState& event) const;
  void end();
  void record();
  const char* name_ = nullptr;
  const StreamState* stream_ = nullptr;
  const EventState* event_ = nullptr;
  uint32_t correlation_ = 0;
  c10::approx_time_t start_ = 0;
  int64_t counted_since_ = 0;  // 0: not counted
  Counted counted_as_ = Counted::Wait;
};

// Work of the device that the calling thread executes.
struct WorkInProgress {
  Activity work;
  c10::approx_time_t called = 0;
  bool is_awaited = false, is_empty = false, is_recorded = false;
  // For a report: the operator and the program's line. `op` is null if the work is not counted.
  const std::string* op = nullptr;
  Site site = kNoSite;
  int64_t began_ns = 0;
  c10::DeviceIndex device = 0;
  c10::StreamId stream = 0;
  bool of_graph = false;
};

// Work of the device, from its launch until it is done. Nested work is not recorded: operators that a kernel calls are
// part of the kernel. Work that throws is not recorded either.
class DeviceWork {
 public:
  DeviceWork() = default;
  ~DeviceWork() {
    if (C10_UNLIKELY(active_)) end();
  }
  DeviceWork(const DeviceWork&) = delete;
  DeviceWork& operator=(const DeviceWork&) = delete;

  // Begin work of this operator. Call it only if is_profiled().
  void begin(const std::string& op, c10::DeviceIndex device);
  // The same for work that was issued at another line than the thread's current one.
  void begin(const std::string& op, c10::DeviceIndex device, Site site);

  // Describe the work in progress on this thread: it is a copy with this name (which includes the direction) and size;
  // it belongs to this operator, whose CUDA kernel has this name, whatever nested operators reported; the host waits
  // for it; there was nothing to do.
  static void mark_copy(const char* name, int64_t bytes);
  static void mark_kernel(const std::string& op, const char* name);
  static void mark_awaited();
  static void mark_empty();
  static bool is_in_progress();
  // Return the program's line that started the work in progress, or else the calling thread's current line.
  static Site site();

 private:
  void end();
  bool active_ = false;
  int exceptions_ = 0;
  WorkInProgress now_;
};

// The time that the work of this thread's current call takes on a GPU, if it is predicted (clock); otherwise negative.
extern thread_local int64_t t_predicted_ns;

// Return CUPTI's name of a copy.
constexpr const char* copy_name(bool from_host, bool to_host, bool pinned) {
  if (from_host) return pinned ? "Memcpy HtoD (Pinned -> Device)" : "Memcpy HtoD (Pageable -> Device)";
  if (to_host) return pinned ? "Memcpy DtoH (Device -> Pinned)" : "Memcpy DtoH (Device -> Pageable)";
  return "Memcpy DtoD (Device -> Device)";
}

// The replay of a graph: one runtime call, and one activity on the device for each node that computes.
class GraphLaunch {
 public:
  explicit GraphLaunch(c10::DeviceIndex device);
  ~GraphLaunch();
  GraphLaunch(const GraphLaunch&) = delete;
  GraphLaunch& operator=(const GraphLaunch&) = delete;

  // Begin the next node, which ends the one before. A node that does not compute takes no device time.
  void next(const std::string& name, c10::DeviceIndex device, bool computes);

 private:
  void done();
  bool active_, is_recorded_ = false;
  Activity call_;
  WorkInProgress now_;
  Site site_ = kNoSite;  // the line that replays the graph
  c10::DeviceIndex device_;
  int64_t began_ns_ = 0;  // 0: not counted
  int nodes_ = 0;
};

// Record that a stream sleeps: a kernel that the host does not wait for.
void add_sleep(c10::DeviceIndex device, int64_t delay_ns, int64_t ns);

// Returns the profiler's id of the calling thread.
extern int32_t (*g_get_thread_id)();

// Lock and unlock for fork(), after every other lock except the ledger's.
void lock_activities_for_fork();
void unlock_activities_after_fork();

}  // namespace hostdevice
