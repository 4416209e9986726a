// Publishes how much memory of each device this process holds, in memory that other processes can read.
//
// They read it at any time, also while this process computes or is stopped. Publishing is one store whenever a segment
// is allocated or freed.
#pragma once

#include <c10/core/Device.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace hostdevice {

using PublishedCell = std::atomic<uint64_t>;
static_assert(PublishedCell::is_always_lock_free && sizeof(PublishedCell) == sizeof(uint64_t));

// One cell per device; null: not published.
extern std::atomic<PublishedCell*> g_published;

inline void publish_held(c10::DeviceIndex device, size_t bytes) {
  if (auto* cells = g_published.load(std::memory_order_acquire)) cells[device].store(bytes, std::memory_order_relaxed);
}

// Set the cells' address; 0 stops publishing. The cells stay mapped for the rest of the process.
void publish_at(uintptr_t address);

}  // namespace hostdevice
