// The implementation of `kernel_abi.h`, which compiled CUDA C++ uses to call the device. It does not use the
// interpreter.
#include <c10/core/DeviceGuard.h>
#include <dlfcn.h>

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/kernel_abi.h"
#include "operators/recorded.h"
#include "runtime/allocator.h"
#include "runtime/captures.h"
#include "runtime/device.h"
#include "runtime/failure.h"
#include "runtime/kernel_accesses.h"
#include "runtime/multiprocessors.h"
#include "runtime/observer.h"
#include "runtime/pinned.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

constexpr int kInvalidDevice = 101, kNotReady = 600, kCapturing = 900;

// A stream's handle is its address; null is the current device's default stream.
StreamState& state_of(void* handle) {
  return stream_state(t_current_device, reinterpret_cast<c10::StreamId>(handle));
}

int set_device_index(int index) {
  if (index < 0 || index >= device_count()) return kInvalidDevice;
  mark_context(index);
  t_current_device = static_cast<c10::DeviceIndex>(index);
  return 0;
}
void* handle_of_stream(int device, int64_t id) {
  return id == 0 ? nullptr : reinterpret_cast<void*>(stream_handle(static_cast<c10::DeviceIndex>(device), id));
}
int64_t make_stream(int device, int priority) {
  return new_stream(static_cast<c10::DeviceIndex>(device), priority);
}
int query(void* stream) {
  auto& state = state_of(stream);
  if (capture_of(state)) return kCapturing;
  return query_stream(state) ? 0 : kNotReady;
}
int synchronize(void* stream) {
  auto& state = state_of(stream);
  if (capture_of(state)) return kCapturing;
  synchronize_stream(state);
  return 0;
}
int synchronize_all() {
  if (has_captures()) return kCapturing;
  synchronize_device(t_current_device);
  return 0;
}
bool is_capturing(void* stream) {
  return has_captures() && capture_of(state_of(stream)) != nullptr;
}

// Copies and fills have the names of CUDA's functions. They may be of pageable memory, for which CUDA waits.
bool is_copy(const char* name) {
  return std::string_view(name).substr(0, 4) == "cuda";
}

int launch(
    void* stream, const char* name, void (*run)(void*), void (*drop)(void*), void* work, const void* const* pointers,
    size_t count) {
  const std::shared_ptr<void> held(work, drop);
  mark_used();
  mark_context(t_current_device);
  if (C10_UNLIKELY(is_lost(t_current_device))) return failure_code(t_current_device);
  if (is_intercepted()) {
    if (const auto capture = capture_of(state_of(stream))) {
      // Parentheses: a list of two pointers would be their addresses.
      std::vector<const void*> given(pointers, pointers + count);
      capture->add_kernel(name, t_current_device, [held, run] { run(held.get()); }, std::move(given));
      return 0;
    }
  }
  const bool is_watched = g_watches_kernels.load(std::memory_order_relaxed) && count != 0;
  if (!is_copy(name) && !is_watched && run_later(state_of(stream), name, [held, run] { run(held.get()); })) return 0;
  observe([&](StreamObserver& o) { o.run_work(state_of(stream), name, {}); });
  KernelAccesses accesses;
  if (is_watched) accesses.begin(std::vector<const void*>(pointers, pointers + count));
  DeviceWork launched;
  if (is_profiled()) launched.begin(name, t_current_device);
  {
    const InNode whole;
    run(work);
  }
  if (is_watched) accesses.report(state_of(stream), name);
  return 0;
}

void report_failure(int code, const char* message) {
  fail_context(t_current_device, code, message);
}

host_cuda::Memory find_memory(const void* address, const char** begin, size_t* bytes) {
  const auto index = device_of_address(address);
  if (index < 0) return is_pinned(address) ? host_cuda::Memory::kReached : host_cuda::Memory::kOther;
  const auto found = block_of_address(address);
  if (!found) return host_cuda::Memory::kReached;  // memory of another process, whose allocations are unknown here
  *begin = static_cast<const char*>(found->first);
  *bytes = found->second;
  return host_cuda::Memory::kDevice;
}

constexpr host_cuda::KernelAbi kKernelAbi = {
    host_cuda::kKernelAbiVersion,
    [] { return device_count(); },
    [] { return static_cast<int>(t_current_device); },
    &set_device_index,
    &handle_of_stream,
    &make_stream,
    &query,
    &synchronize,
    &synchronize_all,
    &is_capturing,
    &launch,
    &report_failure,
    &find_memory,
    [] { return static_cast<int>(multiprocessors().count); },
};

}  // namespace

// Export this library's symbols: Python loads libraries with local symbols, and compiled CUDA C++ must find
// torchdevice_kernel_abi().
void publish_kernel_abi() {
  Dl_info found;
  if (dladdr(reinterpret_cast<const void*>(&torchdevice_kernel_abi), &found) && found.dli_fname)
    dlopen(found.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

}  // namespace hostdevice

extern "C" __attribute__((visibility("default"))) const host_cuda::KernelAbi* torchdevice_kernel_abi(int version) {
  return version == host_cuda::kKernelAbiVersion && hostdevice::device_count() > 0 ? &hostdevice::kKernelAbi : nullptr;
}
