// The memory that a captured call allocated, so that a replay gets the same addresses.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/intrusive_ptr.h>

#include <vector>

#include "runtime/device.h"

namespace hostdevice {

// During capture, a call's allocations are recorded. During replay, the call gets them again: no allocator runs, no
// statistics change, and results keep their captured addresses.
struct CapturedAllocations {
  struct Entry {
    size_t bytes;
    void* address;
  };
  // A draw of random numbers: the generator's state, and the offset relative to the graph's first draw from it.
  struct Draw {
    c10::intrusive_ptr<c10::intrusive_ptr_target> state;
    uint64_t relative_offset;
  };
  std::vector<Entry> entries;
  std::vector<Draw> draws;
  uint64_t words = 0;  // how far the draws of a tried call advance the generator
};

// Where this thread's device allocations are recorded, or come from. With both, a call is only tried: its memory is the
// host's, and its draws do not advance generators.
struct CaptureCursor {
  CapturedAllocations* recording = nullptr;
  const CapturedAllocations* replaying = nullptr;
  size_t next = 0, next_draw = 0;
};
extern thread_local CaptureCursor t_captured;

// Return the next recorded block of this size. If none is left, return host memory, which is freed with the tensor.
c10::DataPtr replay_allocation(size_t bytes, c10::DeviceIndex device);
// Return whether replay_allocation() returned this pointer.
bool is_replayed(const c10::DataPtr& pointer);
// Return whether an address is in the recording that this thread replays: such raw memory belongs to the graph.
bool is_captured_address(const void* address);

}  // namespace hostdevice
