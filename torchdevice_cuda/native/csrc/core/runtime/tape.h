// The memory that a recorded call was given, so that it gets the same when it is replayed.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/intrusive_ptr.h>

#include <vector>

#include "runtime/device.h"

namespace hostdevice {

// While a call is recorded, what it is given is written down. While it is replayed, it is given that: no allocator is
// asked, no book changes, and results lie where they lay.
struct CapturedAllocations {
  struct Entry {
    size_t bytes;
    void* address;
  };
  // What it drew: from which generator's state, and how far behind where the graph begins to draw from it.
  struct Draw {
    c10::intrusive_ptr<c10::intrusive_ptr_target> state;
    uint64_t behind;
  };
  std::vector<Entry> entries;
  std::vector<Draw> draws;
};

// What this thread's allocations on devices are written to, or come from.
struct TapeHead {
  CapturedAllocations* recording = nullptr;
  const CapturedAllocations* playing = nullptr;
  size_t next = 0, next_draw = 0;
};
extern thread_local TapeHead t_tape;

// The next block of the tape that has this size. What is not on it is the host's memory for as long as it lives.
c10::DataPtr play(size_t bytes, c10::DeviceIndex device);
// Whether play() gave it.
bool is_played(const c10::DataPtr& pointer);
// The same of memory without an owner, to whoever plays: it stays the graph's.
bool is_on_tape(const void* address);

}  // namespace hostdevice
