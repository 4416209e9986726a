// The device guard: PyTorch's interface to the current device, streams and events.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <thread>

#include "compat.h"
#include "runtime/allocator.h"
#include "runtime/captures.h"
#include "runtime/device.h"
#include "runtime/install.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

std::thread::id g_installer;

// Resolve the device of a stream query. CUDA's stream functions raise this message for an invalid index; other calls
// raise the driver's error.
c10::DeviceIndex resolve_stream_device(c10::Device d) {
  TORCH_CHECK(
      d.index() < device_count(), "Device index value ", static_cast<int>(d.index()), " is out of index range [0, ",
      device_count(), ")");
  return resolve(d.index());
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override {
    return kType;
  }
  c10::Device exchangeDevice(c10::Device d) const override {
    auto old = t_current_device;
    set(d);
    return device(old);
  }
  c10::Device getDevice() const override {
    return device(t_current_device);
  }
  void setDevice(c10::Device d) const override {
    // An autograd thread calls this first. Programs set the device through other functions.
    if (!g_autograd_threads.load(std::memory_order_relaxed) && std::this_thread::get_id() != g_installer)
      g_autograd_threads = true;
    set(d);
  }
  void uncheckedSetDevice(c10::Device d) const noexcept override {
    if (d.index() >= 0 && d.index() < device_count()) t_current_device = d.index();
  }
  c10::Stream getStream(c10::Device d) const noexcept(kGetStreamNoexcept) override {
    const auto i = resolve_stream_device(d);
    return stream(i, current_stream(i));
  }
  c10::Stream getDefaultStream(c10::Device d) const override {
    return stream(resolve_stream_device(d), 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool high = false) const override {
    const auto i = resolve(d.index());
    return stream(i, new_stream(i, high ? -1 : 0));
  }
  c10::Stream getNewStream(c10::Device d, int priority = 0) const override {
    const auto i = resolve(d.index());
    return stream(i, new_stream(i, priority));
  }
  c10::Stream exchangeStream(c10::Stream s) const noexcept(kExchangeStreamNoexcept) override {
    return stream(s.device_index(), exchange_stream(s.device_index(), s.id()));
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(device_count());
  }

  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    if (!event) return;
    report_event_deletion(*static_cast<EventState*>(event));
    delete static_cast<EventState*>(event);
  }
  void record(
      void** event, const c10::Stream& s, const c10::DeviceIndex index, const c10::EventFlag flag) const override {
    TORCH_CHECK(
        index == -1 || index == s.device_index(), "Event device index ", static_cast<int>(index),
        " does not match recording stream's device index ", static_cast<int>(s.device_index()), ".");
    if (!*event) {
      auto* made = new EventState;
      made->timing = flag == c10::EventFlag::BACKEND_DEFAULT;
      *event = made;
    }
    event_record(*static_cast<EventState*>(*event), state(s));
  }
  void block(void* event, const c10::Stream& s) const override {
    if (event) event_block(*static_cast<EventState*>(event), state(s));
  }
  bool queryEvent(void* event) const override {
    return !event || query_event(*static_cast<EventState*>(event));
  }
  void synchronizeEvent(void* event) const override {
    if (event) synchronize_event(*static_cast<EventState*>(event));
  }
  double elapsedTime(void* first, void* second, const c10::DeviceIndex) const override {
    TORCH_CHECK(first && second, "Both events must be recorded before calculating elapsed time.");
    return event_elapsed_ms(*static_cast<EventState*>(first), *static_cast<EventState*>(second));
  }
  bool queryStream(const c10::Stream& s) const override {
    return query_stream(state(s));
  }
  void synchronizeStream(const c10::Stream& s) const override {
    synchronize_stream(state(s));
  }
  // Only some versions of PyTorch declare the following methods, so they are not marked override.
  bool isStreamCapturing(const c10::Stream& s) const {
    return capture_status(state(s)) != 0;
  }
  void synchronizeDevice(const c10::DeviceIndex index) const {
    synchronize_device(index);
  }
  void recordDataPtrOnStream(const c10::DataPtr& p, const c10::Stream& s) const {
    record_stream(p, s.device_index(), s.id());
  }
  void* getStreamNativeHandle(const c10::Stream s) const {
    return reinterpret_cast<void*>(stream_handle(s.device_index(), s.id()));
  }

 private:
  static c10::Stream stream(c10::DeviceIndex index, c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, device(index), id);
  }
  static StreamState& state(const c10::Stream& s) {
    return stream_state(s.device_index(), s.id());
  }
  static void set(c10::Device d) {
    TORCH_INTERNAL_ASSERT(d.type() == kType);
    if (d.index() < 0) return;
    check_index(d.index());
    t_current_device = d.index();
  }
};

}  // namespace

void install_guard() {
  // Never deleted: guards may run during static destruction.
  g_installer = std::this_thread::get_id();
  static const auto* guard = new Guard;
  static c10::impl::DeviceGuardImplRegistrar registrar(kType, guard);
}

}  // namespace hostdevice
