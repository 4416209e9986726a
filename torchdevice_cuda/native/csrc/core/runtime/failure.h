// A kernel may end a device's context, as a failed assertion does. CUDA tells whoever waits for the device. Soon
// afterwards, or once somebody was told, every call of its runtime says so: the device is lost for as long as the
// process lives.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "runtime/device.h"

namespace hostdevice {

// Devices whose context has ended; a bit each.
extern std::atomic<uint64_t> g_failed;

// The first failure of a device stays. `words`: as CUDA's runtime says it, with what torch says after each.
void fail_context(c10::DeviceIndex index, int code, const std::string& words);
// A kernel's assertion: its line is written to standard error as a GPU's driver writes it, and what the host knows of
// the cause behind it. Where launches wait (CUDA_LAUNCH_BLOCKING) it is raised at once.
void fail_assertion(c10::DeviceIndex index, const char* place, const std::string& condition, const std::string& cause);
// Why a device is lost; 0 while it is not.
int failure_code(c10::DeviceIndex index);
[[noreturn]] void throw_failure(c10::DeviceIndex index);
// Whether calls that wait for nothing are refused, too.
bool is_lost(c10::DeviceIndex index);

inline bool is_in(const std::atomic<uint64_t>& devices, c10::DeviceIndex index) {
  return (devices.load(std::memory_order_relaxed) >> index) & 1;
}
// A call that waits for the device, or asks how far it is.
inline void check_awaited(c10::DeviceIndex index) {
  if (C10_UNLIKELY(g_failed.load(std::memory_order_relaxed) != 0) && is_in(g_failed, index)) throw_failure(index);
}
// A call that gives the device something to do, or asks its driver for something.
inline void check_launched(c10::DeviceIndex index) {
  if (C10_UNLIKELY(g_failed.load(std::memory_order_relaxed) != 0) && is_lost(index)) throw_failure(index);
}

}  // namespace hostdevice
