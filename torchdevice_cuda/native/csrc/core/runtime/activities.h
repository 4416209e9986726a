// What is done on the device and asked of its runtime, written down while a profiler wants to know, and added up for a
// report (ledger.h).
//
// Whoever profiles stands above this: it switches the writing on and takes what was written. One lock protects the
// list, which is held for as long as it takes to add a line. Where nobody listens, one relaxed load says so.
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

enum class Doing : uint8_t { Runtime, Kernel, Memcpy };

struct Activity {
  Doing doing = Doing::Runtime;
  std::string name;
  c10::approx_time_t start = 0, end = 0;
  int64_t delay_ns = 0;        // after `start`: the stream was busy that long
  int64_t longer_ns = 0;       // than from `start` to `end`: the host does not wait for it
  uint32_t correlation = 0;    // that a call and what it launched have in common
  uint64_t op = 0, range = 0;  // the profiler's numbers of the operator and of the program's range around it; 0: none
  int32_t thread = 0;
  c10::DeviceIndex device = 0;
  c10::StreamId stream = 0;
  int64_t bytes = -1;      // of copies
  int graph_node = -1;     // its place in a graph that is replayed
  bool of_stream = false;  // a call that names one
  // Of a call that waits for an event: which, what recorded it, on which stream.
  uint64_t event = 0;
  uint32_t recorded = 0;
  c10::StreamId recorded_on = 0;
  bool launches = false;  // a call that something on the device goes back to
};

// Who wants to know: a profiler, of every activity; a report, of their sums.
constexpr uint8_t kWriting = 1, kCounting = 2;
extern std::atomic<uint8_t> g_listeners;
void listen(uint8_t who, bool on);
inline bool is_profiled() {
  return C10_UNLIKELY(g_listeners.load(std::memory_order_relaxed) != 0);
}
inline bool is_written() {
  return (g_listeners.load(std::memory_order_relaxed) & kWriting) != 0;
}
inline bool is_counted() {
  return C10_UNLIKELY((g_listeners.load(std::memory_order_relaxed) & kCounting) != 0);
}

void begin_activities();
std::vector<Activity> end_activities();
// Meanwhile nothing is written.
void pause_activities(bool paused);

// Where the calling thread is, in the profiler's numbers: operators and the program's ranges, each in the last.
void enter_op(uint64_t id);
void leave_op();
void enter_range(uint64_t id);
void leave_range();

// A call of CUDA's runtime. A null name is none.
class RuntimeCall {
 public:
  // Of all of a device, unless it is for a stream.
  explicit RuntimeCall(const char* name, const StreamState* stream = nullptr) {
    if (is_profiled()) begin(name, stream);
  }
  ~RuntimeCall() {
    if (C10_UNLIKELY(name_ != nullptr)) end();
  }
  // The call records this event, or waits for it.
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
  void write_down();
  const char* name_ = nullptr;
  const StreamState* stream_ = nullptr;
  const EventState* event_ = nullptr;
  uint32_t correlation_ = 0;
  c10::approx_time_t start_ = 0;
  int64_t counted_since_ = 0;  // 0: it is not counted
};

// Work of the device that a thread is doing.
struct Underway {
  Activity work;
  c10::approx_time_t called = 0;
  bool awaited = false, nothing = false, written = false;
  // For a report: by its operator, on the line that asked for it. Null: it is not counted.
  const std::string* op = nullptr;
  Site site = kNoSite;
  int64_t began_ns = 0;
};

// Work of the device, from when it is given to the device until it is done. Of work in other work only the outermost
// is written down: what a kernel calls is part of it. What raises has done nothing.
class DeviceWork {
 public:
  DeviceWork() = default;
  ~DeviceWork() {
    if (C10_UNLIKELY(active_)) end();
  }
  DeviceWork(const DeviceWork&) = delete;
  DeviceWork& operator=(const DeviceWork&) = delete;

  // By its operator; to be asked only where somebody profiles.
  void begin(const std::string& op, c10::DeviceIndex device);

  // What is known of the work that is underway on this thread: it is a copy, so much and in that direction; it is this
  // operator's, for which CUDA has a kernel of this name, whatever its parts have said; the host waits for it; there
  // was nothing to be done.
  static void is_copy(const char* name, int64_t bytes);
  static void is_kernel(const std::string& op, const char* name);
  static void is_awaited();
  static void is_nothing();
  static bool underway();
  // The line that asked for the work that is underway; or the one that the calling thread is at.
  static Site site();

 private:
  void end();
  bool active_ = false;
  int exceptions_ = 0;
  Underway now_;
};

// As CUPTI calls copies.
constexpr const char* copy_name(bool from_host, bool to_host, bool pinned) {
  if (from_host) return pinned ? "Memcpy HtoD (Pinned -> Device)" : "Memcpy HtoD (Pageable -> Device)";
  if (to_host) return pinned ? "Memcpy DtoH (Device -> Pinned)" : "Memcpy DtoH (Device -> Pageable)";
  return "Memcpy DtoD (Device -> Device)";
}

// A graph that is replayed: one call, and on the device whatever is in the graph.
class GraphLaunch {
 public:
  explicit GraphLaunch(c10::DeviceIndex device);
  ~GraphLaunch();
  GraphLaunch(const GraphLaunch&) = delete;
  GraphLaunch& operator=(const GraphLaunch&) = delete;

  // What comes next, until the next one. Something that does not compute takes none of the device's time.
  void next(const std::string& name, c10::DeviceIndex device, bool computes);

 private:
  void done();
  bool active_, written_ = false;
  Activity call_;
  Underway now_;
  Site site_ = kNoSite;  // that replays it
  int nodes_ = 0;
};

// A stream sleeps: a kernel that the host does not wait for.
void add_sleep(c10::DeviceIndex device, int64_t delay_ns, int64_t ns);

// How a profiler numbers the calling thread.
extern int32_t (*g_number_thread)();

// Across fork(), after every other lock.
void lock_activities_for_fork();
void unlock_activities_after_fork();

}  // namespace hostdevice
