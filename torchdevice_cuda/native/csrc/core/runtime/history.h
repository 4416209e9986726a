// The history that torch.cuda.memory._record_memory_history() asks for: what happened to memory, and where the program
// was.
//
// Recording is switched for all devices at once, each device keeps a trace of its own. The switches are atomics that
// every allocation reads without a lock; a trace belongs to its device and is protected by that device's lock.
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

// Whatever the caller of the history wants attached to an event (a stack); opaque here. The last owner may let go of it
// under a device's lock: its deleter waits for nothing.
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
// Their names in a snapshot, by their numbers.
constexpr const char* kActions[] = {"alloc",        "free_requested", "free_completed", "segment_alloc",
                                    "segment_free", "segment_map",    "segment_unmap",  "oom",
                                    "snapshot"};

// What stacks are kept of: nothing; living blocks; events of allocation, too; those of freeing, too.
enum class Keeping : int { Never, State, Alloc, All };

struct TraceEntry {
  Action action;
  uintptr_t address;  // of an Oom: the free bytes
  size_t size;
  c10::StreamId stream;
  int64_t time_us;
  PoolId pool;
  Context context;
  std::string compiled, metadata;  // what ran then, and what the program says of it
};

struct HistorySwitches {
  std::atomic<bool> on{false};
  std::atomic<size_t> max_entries{1};
  std::atomic<ContextSource> source{nullptr};
  std::atomic<Keeping> keeping{Keeping::Never};
  std::atomic<uint32_t> skipped{0};  // a bit for each action
};
extern HistorySwitches g_history;

inline bool history_enabled() {
  return C10_UNLIKELY(g_history.on.load(std::memory_order_relaxed));
}

// What the calling thread says of what it allocates.
extern thread_local std::string t_metadata;
// The compiled functions that the calling thread is in.
extern thread_local std::vector<std::string> t_compiled;

// What to attach to an event that happens now, where stacks are kept of such. It may need the interpreter, whose owner
// may be waiting for a device's lock: never called under one.
Context context_now(Keeping least);
inline Context context_of_event() {
  return history_enabled() ? context_now(Keeping::State) : nullptr;
}
inline Context context_of_free() {
  return history_enabled() ? context_now(Keeping::All) : nullptr;
}

int64_t time_us();

// The last events of one device, under its lock.
class Trace {
 public:
  // Stamps the entry with the time and the thread's own words; the oldest give way to it.
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

// A moment that the program named: the start or the end of torch.profiler.record_function.
struct Annotation {
  std::string name, stage;
  int device;
  int64_t time_us;
};
// Kept while a history is, as many as events.
void annotate(std::string name, const char* stage, int device);
std::vector<Annotation> annotations();
void clear_annotations();
// Across fork(), after every other lock.
void lock_annotations_for_fork();
void unlock_annotations_after_fork();

}  // namespace hostdevice
