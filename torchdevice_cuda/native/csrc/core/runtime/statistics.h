// The statistics of an allocator: PyTorch's own structures, which torch.cuda.memory_stats() prints.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <cstddef>

namespace hostdevice {

// Older versions of PyTorch define these names in this namespace; newer ones import them into it.
using c10::CachingDeviceAllocator::format_size;
using Stat = c10::CachingDeviceAllocator::Stat;
using StatArray = c10::CachingDeviceAllocator::StatArray;
using Stats = c10::CachingDeviceAllocator::DeviceStats;

// The indices of a StatArray.
enum StatKind : size_t { kAll = 0, kSmallPool = 1, kLargePool = 2 };

template <class F>
void each_stat(Stats& stats, F f) {
  for (auto* array :
       {&stats.allocation, &stats.segment, &stats.active, &stats.inactive_split, &stats.allocated_bytes,
        &stats.reserved_bytes, &stats.active_bytes, &stats.inactive_split_bytes, &stats.requested_bytes})
    for (auto& stat : *array) f(stat);
  f(stats.oversize_allocations);
  f(stats.oversize_segments);
}

}  // namespace hostdevice
