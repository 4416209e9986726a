// The memory limits of a device, and the error when memory is short.
#pragma once

#include <c10/core/Device.h>

#include <atomic>
#include <cstddef>

namespace hostdevice {

// A device's size and the fraction that this process may use. The device's lock protects it.
struct Limits {
  size_t total = size_t{16} << 30;
  double fraction = 1.0;

  bool is_reduced() const {
    return fraction < 1.0;
  }
  size_t allowed() const {
    return is_reduced() ? static_cast<size_t>(fraction * static_cast<double>(total)) : total;
  }
  // Return whether `size` more bytes fit.
  bool allows(size_t used, size_t size) const {
    return size <= allowed() && used <= allowed() - size;
  }
  size_t free(size_t reserved) const {
    return total > reserved ? total - reserved : 0;
  }
};

// A failed allocation, with the values that the error message needs.
struct OutOfMemoryInfo {
  c10::DeviceIndex device;
  size_t requested, wanted, allocated, reserved;
  size_t in_private_pools;  // free in private pools, where other allocations cannot use it
  bool async;               // use the error message of cudaMallocAsync
  size_t free;              // of the device, or what the machine has left if that is less
  Limits limits;
  size_t largest_block;  // the largest free block of the cache
};

// Called with every shortage before its error is thrown, without any lock: it may run the program's code, which may
// allocate and may throw an error of its own. May be null.
using OutOfMemoryObserver = void (*)(const OutOfMemoryInfo&);
extern std::atomic<OutOfMemoryObserver> g_oom_observer;

// The same for a report, with the device's holders of memory still those of the shortage.
extern std::atomic<OutOfMemoryObserver> g_note_shortage;

// Throw with CUDA's message, or that of MPS. Called without the device's lock.
[[noreturn]] void throw_out_of_memory(const OutOfMemoryInfo& info);

}  // namespace hostdevice
