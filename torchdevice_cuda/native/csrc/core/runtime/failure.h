// Sticky errors. A kernel may destroy a device's context, for example by a failed assertion. CUDA reports that to the
// next call that waits for the device. Soon afterwards, or once it was reported, every call of its runtime raises the
// error: the device is lost for the rest of the process.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "runtime/device.h"

namespace hostdevice {

// The devices whose context has failed, one bit each.
extern std::atomic<uint64_t> g_failed;

// Record a failure; the first failure of a device stays. `message` is CUDA's message without the hints that torch
// appends.
void fail_context(c10::DeviceIndex index, int code, const std::string& message);
// Record a failed assertion of a kernel. Write the line that a GPU's driver writes to standard error, and below it the
// cause that the host knows. With CUDA_LAUNCH_BLOCKING, throw at once.
void fail_assertion(
    c10::DeviceIndex index, const char* location, const std::string& condition, const std::string& cause);
// Return the error code of a lost device, or 0.
int failure_code(c10::DeviceIndex index);
[[noreturn]] void throw_failure(c10::DeviceIndex index);
// Return whether calls that do not wait are refused, too.
bool is_lost(c10::DeviceIndex index);

inline bool is_in(const std::atomic<uint64_t>& devices, c10::DeviceIndex index) {
  return (devices.load(std::memory_order_relaxed) >> index) & 1;
}
// Check before a call that waits for the device or queries its progress.
inline void check_before_wait(c10::DeviceIndex index) {
  if (C10_UNLIKELY(g_failed.load(std::memory_order_relaxed) != 0) && is_in(g_failed, index)) throw_failure(index);
}
// Check before a call that launches work or queries the driver.
inline void check_before_launch(c10::DeviceIndex index) {
  if (C10_UNLIKELY(g_failed.load(std::memory_order_relaxed) != 0) && is_lost(index)) throw_failure(index);
}

}  // namespace hostdevice
