// The time of CUDA C++ kernels: their libraries count what a sample of blocks does
// (cuda_cpp/include/host_cuda/counts.h).
#include "clock/kernels.h"

#include <dlfcn.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "clock/clock.h"
#include "clock/kernel_times.h"
#include "runtime/activities.h"
#include "runtime/allocator.h"
#include "runtime/captures.h"
#include "runtime/device.h"
#include "runtime/host.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

using host_cuda::KernelCounts;

// The launch that this thread makes.
struct Launching {
  std::string name;
  StreamState* stream = nullptr;  // null: there is none
  std::vector<const void*> pointers;
  std::chrono::steady_clock::time_point began;
  int64_t ns = -1;  // negative: not counted yet
  int64_t predicted_before = -1;
};
thread_local Launching t_launching;

void begin(const char* name, void* stream, const void* const* pointers, size_t count) {
  auto& now = t_launching;
  now.name = name;
  now.stream = &stream_state(t_current_device, reinterpret_cast<c10::StreamId>(stream));
  now.pointers.assign(pointers, pointers + count);
  now.began = std::chrono::steady_clock::now();
  now.ns = -1;
  now.predicted_before = t_predicted_ns;
}

bool runs() {
  return !g_only_promises.load(std::memory_order_relaxed);
}

void count(const KernelCounts& counts) {
  const auto ns = predict_kernel(
      {counts.traffic, counts.memory, counts.footprint, counts.operations, counts.products, 0, counts.scattered,
       counts.warps});
  auto& now = t_launching;
  if (!now.stream) {
    add_replayed_kernel(ns);
    return;
  }
  now.ns = ns;
  t_predicted_ns = ns;  // what a profiler shows
}

// A kernel that did not run is estimated to read or write each of its tensors once.
int64_t estimate(const Launching& launch) {
  std::set<std::pair<void*, size_t>> blocks;
  for (const void* each : launch.pointers)
    if (const auto found = device_of_address(each) >= 0 ? block_of_address(each) : std::nullopt) blocks.insert(*found);
  double bytes = 0;
  for (const auto& block : blocks) bytes += static_cast<double>(block.second);
  report_kernel(launch.name.c_str(), true);
  return predict_kernel({bytes, bytes, bytes, 0, 0, 0, 0, 0});
}

void end(bool is_launched) {
  auto& now = t_launching;
  t_predicted_ns = now.predicted_before;
  StreamState& stream = *std::exchange(now.stream, nullptr);
  if (!is_launched) return;
  // In a graph it is counted when the graph runs.
  const bool is_later = runs() && has_captures() && capture_of(stream);
  const auto ns = is_later ? 0 : now.ns >= 0 ? now.ns : estimate(now);
  const auto spent = std::chrono::steady_clock::now() - now.began;
  add_kernel(stream, ns, std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count());
}

constexpr host_cuda::KernelTimes kTimes = {&begin, &end, &runs, &count};

}  // namespace

bool is_kernel_timed() {
  return t_launching.stream != nullptr;
}

void publish_kernel_times() {
  Dl_info found;
  if (dladdr(reinterpret_cast<const void*>(&torchdevice_kernel_times), &found) && found.dli_fname)
    dlopen(found.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

}  // namespace hostdevice

extern "C" __attribute__((visibility("default"))) const host_cuda::KernelTimes* torchdevice_kernel_times() {
  return hostdevice::is_clock_on() ? &hostdevice::kTimes : nullptr;
}
