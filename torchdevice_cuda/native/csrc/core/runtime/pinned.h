// Pinned host memory: blocks rounded to a power of two and cached until asked otherwise, as CUDA's pinned allocator
// does.
//
// One lock of its own protects all of it; nothing else is locked while it is held.
#pragma once

#include <c10/core/Allocator.h>

#include <algorithm>
#include <cstdint>

#include "runtime/statistics.h"

namespace hostdevice {

// How long calls took, in microseconds.
struct Times {
  int64_t total = 0, max = 0, min = 0, count = 0;

  void add(int64_t taken) {
    min = count == 0 ? taken : std::min(min, taken);
    max = std::max(max, taken);
    total += taken;
    count++;
  }
};

struct HostStats {
  Stat allocation, allocated_bytes, segment, reserved_bytes;
  Times alloc_time, free_time;  // of taking memory from the host, and of giving it back
  int64_t num_host_alloc = 0, num_host_free = 0;
};

c10::Allocator* pinned_allocator();
// Does this address lie in pinned memory that is in use, or in such that the program registered?
bool is_pinned(const void* pointer);
// A copy from or to this memory is done at that moment, on now_ns()'s clock: until then nobody else gets it.
void use_pinned_until(const void* pointer, int64_t ns);
// Memory of the program's own that it has had pinned. Ranges do not overlap; whoever registers has looked.
void register_pinned(void* pointer, size_t bytes);
void unregister_pinned(void* pointer);
// Beyond these sizes a block is not rounded up, or not kept.
void set_pinned_limits(size_t rounded, size_t kept);
HostStats host_stats();
void host_empty_cache();
void host_reset_peak_stats();
void host_reset_accumulated_stats();

void lock_pinned_for_fork();
void unlock_pinned_after_fork();

}  // namespace hostdevice
