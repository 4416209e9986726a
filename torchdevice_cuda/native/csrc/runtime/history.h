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
#include <vector>

#include "compat.h"

namespace hostdevice {

// Whatever the caller of the history wants attached to an event (a Python stack); opaque here. The last owner may let
// go of it under a device's lock: its deleter waits for nothing.
using Context = std::shared_ptr<void>;
using ContextSource = Context (*)();

enum class Action : uint8_t { Alloc, FreeRequested, FreeCompleted, SegmentAlloc, SegmentFree, Oom, Snapshot };

struct TraceEntry {
  Action action;
  uintptr_t address;  // of an Oom: the free bytes
  size_t size;
  c10::StreamId stream;
  int64_t time_us;
  PoolId pool;
  Context context;
};

struct HistorySwitches {
  std::atomic<bool> on{false};
  std::atomic<size_t> max_entries{0};
  std::atomic<ContextSource> source{nullptr};
  std::atomic<bool> contexts_on_free{false};
};
extern HistorySwitches g_history;

inline bool history_enabled() {
  return C10_UNLIKELY(g_history.on.load(std::memory_order_relaxed));
}

// What to attach to an event that happens now. It may need the interpreter, whose owner may be waiting for a device's
// lock: never called under one.
Context context_now();
inline Context context_of_event() {
  return history_enabled() ? context_now() : nullptr;
}
inline Context context_of_free() {
  return history_enabled() && g_history.contexts_on_free.load(std::memory_order_relaxed) ? context_now() : nullptr;
}

// The last events of one device, under its lock.
class Trace {
 public:
  // Stamps the entry with the time; the oldest give way to it.
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

}  // namespace hostdevice
