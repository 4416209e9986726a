// Pinned host memory: blocks are rounded up to a power of two and cached, like CUDA's pinned allocator.
//
// One lock protects all of it; no other lock is taken while it is held.
#pragma once

#include <c10/core/Allocator.h>

#include <algorithm>
#include <cstdint>

#include "runtime/statistics.h"

namespace hostdevice {

// Durations of calls, in microseconds.
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
  Times alloc_time, free_time;  // of allocating and freeing host memory
  int64_t num_host_alloc = 0, num_host_free = 0;
};

c10::Allocator* pinned_allocator();
// Return whether this address is in allocated pinned memory, or in memory that the program registered.
bool is_pinned(const void* pointer);
// Return whether this address is in memory that the pinned allocator has mapped.
bool is_pinned_block(const void* pointer);
// Do not reuse this memory before the time `ns` of now_ns()'s clock, when a copy from or to it is done.
void extend_pinned_use(const void* pointer, int64_t ns);
// Register the program's own memory as pinned. Ranges must not overlap; the caller checks that.
void register_pinned(void* pointer, size_t bytes);
void unregister_pinned(void* pointer);
// Set the sizes above which blocks are not rounded up, or not cached.
void set_pinned_limits(size_t max_rounded, size_t max_cached);
HostStats host_stats();
void host_empty_cache();
void host_reset_peak_stats();
void host_reset_accumulated_stats();

void lock_pinned_for_fork();
void unlock_pinned_after_fork();

}  // namespace hostdevice
