// How much memory a device has, and what is said when that is not enough.
#pragma once

#include <c10/core/Device.h>

#include <atomic>
#include <cstddef>

namespace hostdevice {

// A device's size and the part of it this process may use. Protected by the device's lock.
struct Limits {
  size_t total = size_t{16} << 30;
  double fraction = 1.0;

  bool is_reduced() const {
    return fraction < 1.0;
  }
  size_t allowed() const {
    return is_reduced() ? static_cast<size_t>(fraction * static_cast<double>(total)) : total;
  }
  // So much more, beside what is used.
  bool allows(size_t used, size_t size) const {
    return size <= allowed() && used <= allowed() - size;
  }
  size_t free(size_t reserved) const {
    return total > reserved ? total - reserved : 0;
  }
};

// What an allocation wanted when there was not enough, as the error message needs it.
struct Shortage {
  c10::DeviceIndex device;
  size_t requested, wanted, allocated, reserved;
  size_t in_private_pools;  // free there, and of no use to others
  bool async;               // in the words of cudaMallocAsync
  size_t free;              // of the device, or what the machine has left where that is less
  Limits limits;
};

// Told of every shortage before its error is thrown, without any lock: it may run the program's code, which may
// allocate and may throw an error of its own. Null: nobody is told.
using ShortageObserver = void (*)(const Shortage&);
extern std::atomic<ShortageObserver> g_shortage_observer;

// CUDA's words, or an Apple GPU's. Called without the device's lock.
[[noreturn]] void throw_out_of_memory(const Shortage& shortage);

}  // namespace hostdevice
