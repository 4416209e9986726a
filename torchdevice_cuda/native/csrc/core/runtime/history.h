// The history of torch.cuda.memory._record_memory_history(): memory events, and the program's stacks.
//
// Recording is enabled for all devices at once; each device has its own trace. Every allocation reads the atomic
// switches without a lock. The device's lock protects its trace.
#pragma once

#include <c10/core/Stream.h>
#include <c10/macros/Macros.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "compat.h"

namespace hostdevice {

// An opaque object, such as a stack, that is attached to an event. Its last owner may release it under a device's lock,
// so its deleter must not wait.
using Context = std::shared_ptr<void>;
using ContextSource = Context (*)();

enum class Action : uint8_t {
  Alloc,
  FreeRequested,
  FreeCompleted,
  SegmentAlloc,
  SegmentFree,
  SegmentMap,
  SegmentUnmap,
  Oom,
  Snapshot
};
// The names in a snapshot, indexed by Action.
constexpr const char* kActions[] = {"alloc",        "free_requested", "free_completed", "segment_alloc",
                                    "segment_free", "segment_map",    "segment_unmap",  "oom",
                                    "snapshot"};

// Selects the stacks to store: none; those of live blocks; also those of allocation events; also those of free events.
enum class StackRecording : int { Never, State, Alloc, All };

struct TraceEntry {
  Action action;
  uintptr_t address;  // for Oom: the free bytes
  size_t size;
  c10::StreamId stream;
  int64_t time_us;
  PoolId pool;
  Context context;
  std::string compiled, metadata;  // the compiled function that ran, and the program's metadata
};

struct HistorySwitches {
  std::atomic<bool> on{false};
  std::atomic<size_t> max_entries{1};
  std::atomic<ContextSource> source{nullptr};
  std::atomic<StackRecording> stacks{StackRecording::Never};
  std::atomic<uint32_t> skipped{0};  // one bit per action
};
extern HistorySwitches g_history;

inline bool history_enabled() {
  return C10_UNLIKELY(g_history.on.load(std::memory_order_relaxed));
}

// Metadata that the calling thread attaches to its allocations.
extern thread_local std::string t_metadata;
// The compiled functions that the calling thread executes.
extern thread_local std::vector<std::string> t_compiled;

// Return the context of an event that happens now, if stacks of such events are stored. It may take the GIL, whose
// owner may be waiting for a device's lock: never call it under a device's lock.
Context capture_context(StackRecording least);
inline Context context_of_event() {
  return history_enabled() ? capture_context(StackRecording::State) : nullptr;
}
inline Context context_of_free() {
  return history_enabled() ? capture_context(StackRecording::All) : nullptr;
}

int64_t time_us();

// The latest events of one device. The device's lock protects it.
class Trace {
 public:
  // Add an entry with the time and the thread's metadata; the oldest entry is dropped when the trace is full.
  void add(TraceEntry entry);
  std::vector<TraceEntry> entries() const {
    return {entries_.begin(), entries_.end()};
  }
  void clear() {
    entries_.clear();
  }

 private:
  std::deque<TraceEntry> entries_;
};

// A point that the program named: the start or the end of a torch.profiler.record_function.
struct Annotation {
  std::string name, stage;
  int device;
  int64_t time_us;
};
// Stored while a history is recorded, at most as many as events.
void annotate(std::string name, const char* stage, int device);
std::vector<Annotation> annotations();
void clear_annotations();
// Lock and unlock for fork(), in the order of lock_all_for_fork().
void lock_annotations_for_fork();
void unlock_annotations_after_fork();

}  // namespace hostdevice
