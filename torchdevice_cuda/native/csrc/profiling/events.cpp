// PyTorch's profilers that time operators with device events: torch.autograd.profiler with a device and without Kineto,
// its predecessor, and emit_nvtx.
#include <torch/csrc/profiler/stubs/base.h>

#include <c10/util/ApproximateClock.h>

#include <functional>
#include <memory>

#include "profiling/profiler.h"
#include "runtime/device.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

struct OnDevice {
  explicit OnDevice(c10::DeviceIndex index) : saved(t_current_device) {
    t_current_device = index;
  }
  ~OnDevice() {
    t_current_device = saved;
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  c10::DeviceIndex saved;
};

const EventState& state(const ProfilerVoidEventStub& event) {
  return *static_cast<const EventState*>(event.get());
}

struct Stubs final : torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex* index, ProfilerVoidEventStub* event, int64_t* cpu_ns) const override {
    if (index) *index = t_current_device;
    const auto made = std::make_shared<EventState>();
    made->timing = true;
    event_record(*made, stream_state(t_current_device, current_stream(t_current_device)));
    *event = made;
    if (cpu_ns) *cpu_ns = c10::getTime();
  }
  // In microseconds.
  float elapsed(const ProfilerVoidEventStub* event, const ProfilerVoidEventStub* event2) const override {
    wait_until(state(*event).time_ns.load());
    wait_until(state(*event2).time_ns.load());
    constexpr double kMicroseconds = 1e3;
    return static_cast<float>(event_elapsed_ms(state(*event), state(*event2)) * kMicroseconds);
  }
  // NVTX ranges and marks: nothing collects them here.
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}
  bool enabled() const override {
    return true;
  }
  void onEachDevice(std::function<void(int)> op) const override {
    for (int i = 0; i < device_count(); i++) {
      const OnDevice there(static_cast<c10::DeviceIndex>(i));
      op(i);
    }
  }
  void synchronize() const override {
    synchronize_device(-1);
  }
};

}  // namespace

void install_event_profiling() {
  static Stubs stubs;
  torch::profiler::impl::registerCUDAMethods(&stubs);
}

}  // namespace hostdevice
