// What other processes are told of this one: how much it holds of each device, in memory that they can read.
//
// They look whenever they like, also while this process computes or is stopped; telling them is one store, where a
// segment comes or goes.
#pragma once

#include <c10/core/Device.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace hostdevice {

using PublishedCell = std::atomic<uint64_t>;
static_assert(PublishedCell::is_always_lock_free && sizeof(PublishedCell) == sizeof(uint64_t));

// A cell for each device; null: nobody is told.
extern std::atomic<PublishedCell*> g_published;

inline void publish_held(c10::DeviceIndex device, size_t bytes) {
  if (auto* cells = g_published.load(std::memory_order_acquire)) cells[device].store(bytes, std::memory_order_relaxed);
}

// Where from now on; 0: nowhere. What is there stays mapped for as long as the process lives.
void publish_at(uintptr_t address);

}  // namespace hostdevice
