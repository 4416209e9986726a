// The device type of this build, the number of devices, and the calling thread's current device.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/DispatchKey.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <string>

#include "compat.h"

#if defined(HOSTDEVICE_CUDA) == defined(HOSTDEVICE_MPS)
#error "compile with exactly one of -DHOSTDEVICE_CUDA and -DHOSTDEVICE_MPS"
#endif

namespace hostdevice {

#ifdef HOSTDEVICE_CUDA
constexpr bool kIsCuda = true;
constexpr c10::DeviceType kType = c10::DeviceType::CUDA;
constexpr c10::DispatchKey kDense = c10::DispatchKey::CUDA;
constexpr c10::DispatchKey kSparse = c10::DispatchKey::SparseCUDA;
constexpr c10::DispatchKey kSparseCsr = c10::DispatchKey::SparseCsrCUDA;
constexpr c10::DispatchKey kNested = c10::DispatchKey::NestedTensorCUDA;
constexpr c10::DispatchKey kQuantized = c10::DispatchKey::QuantizedCUDA;
constexpr const char* kName = "CUDA";
#else
constexpr bool kIsCuda = false;
constexpr c10::DeviceType kType = c10::DeviceType::MPS;
constexpr c10::DispatchKey kDense = c10::DispatchKey::MPS;
constexpr c10::DispatchKey kSparse = c10::DispatchKey::SparseMPS;
constexpr c10::DispatchKey kSparseCsr = c10::DispatchKey::SparseCsrMPS;
constexpr c10::DispatchKey kNested = c10::DispatchKey::NestedTensorMPS;
constexpr c10::DispatchKey kQuantized = c10::DispatchKey::QuantizedMPS;
constexpr const char* kName = "MPS";
#endif

constexpr int kMaxDevices = 64;

inline c10::Device device(c10::DeviceIndex index) {
  return c10::Device(kType, index);
}
inline c10::Device cpu() {
  return c10::Device(c10::DeviceType::CPU);
}

// Set by install(), 0 before. The number that the program sees can decrease until the program uses a device.
extern std::atomic<int> g_device_count;
inline int device_count() {
  return g_device_count.load(std::memory_order_relaxed);
}

extern thread_local c10::DeviceIndex t_current_device;

// Throw an error of CUDA's runtime with CUDA's message, followed by the hints that torch appends.
[[noreturn]] void throw_cuda_error(int code, const std::string& what);
// Return whether CUDA waits for every kernel (CUDA_LAUNCH_BLOCKING).
bool is_launch_blocking();
[[noreturn]] void throw_invalid_ordinal();
[[noreturn]] void throw_bad_fork();

// True in a child that was forked after the parent used the device: CUDA does not work there, so this device refuses.
extern bool g_bad_fork;
inline void check_fork() {
  if (C10_UNLIKELY(g_bad_fork)) throw_bad_fork();
}
// Set by the parent's first use of the device; a fork after it is a bad fork.
extern std::atomic<bool> g_used;
inline void mark_used() {
  check_fork();
  if (C10_UNLIKELY(!g_used.load(std::memory_order_relaxed))) g_used.store(true, std::memory_order_relaxed);
}

// The devices that this process has used: CUDA creates a context on them, which programs can query.
extern std::atomic<uint64_t> g_contexts;
static_assert(kMaxDevices <= 64);
inline bool has_context(int index) {
  return (g_contexts.load(std::memory_order_relaxed) >> index) & 1;
}
inline void mark_context(int index) {
  if (C10_UNLIKELY(!has_context(index))) g_contexts.fetch_or(uint64_t{1} << index, std::memory_order_relaxed);
}

inline void check_index(int index) {
  if (C10_UNLIKELY(index < 0 || index >= device_count())) throw_invalid_ordinal();
}
// Resolve -1 to the current device, like PyTorch.
inline c10::DeviceIndex resolve(c10::DeviceIndex index) {
  if (index < 0) return t_current_device;
  check_index(index);
  return index;
}

// Makes a device the thread's current one while it lives.
struct OnDevice {
  explicit OnDevice(c10::DeviceIndex index) : saved(t_current_device) {
    t_current_device = resolve(index);
  }
  ~OnDevice() {
    t_current_device = saved;
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  c10::DeviceIndex saved;
};

// Hold every allocator lock across fork(), so that a child can free the memory that it inherited.
void install_fork_handlers();

}  // namespace hostdevice
