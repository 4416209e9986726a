// The hooks through which PyTorch's core queries an accelerator.
#include <ATen/detail/CUDAHooksInterface.h>
#ifndef HOSTDEVICE_CUDA
#include <ATen/detail/MPSHooksInterface.h>
#endif

#include <atomic>
#include <new>
#include <sstream>
#include <string>

#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/fft_plans.h"
#include "runtime/generator.h"
#include "runtime/install.h"
#include "runtime/mps_events.h"
#include "runtime/mps_storage.h"
#include "runtime/pinned.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

#ifdef HOSTDEVICE_CUDA
using HooksBase = at::CUDAHooksInterface;
#else
using HooksBase = at::MPSHooksInterface;
#endif

// Methods that only some versions of PyTorch declare are not marked override.
struct Hooks final : HooksBase {
  Hooks() = default;

  void init() const override {
    check_fork();
  }
  bool isBuilt() const {
    return true;
  }
  bool isAvailable() const {
    return device_count() > 0;
  }
  bool hasPrimaryContext(c10::DeviceIndex d) const override {
    return !kIsCuda || (d >= 0 && d < device_count() && has_context(d));
  }
  c10::DeviceIndex deviceCount() const {
    return static_cast<c10::DeviceIndex>(device_count());
  }
  c10::DeviceIndex getCurrentDevice() const {
    return t_current_device;
  }
  void setCurrentDevice(c10::DeviceIndex d) const {
    check_index(d);
    t_current_device = d;
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex d) const {
    const auto old = t_current_device;
    if (d >= 0) setCurrentDevice(d);
    return old;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex d) const {
    return exchangeDevice(d);
  }
  bool isPinnedPtr(const void* p) const override {
    return hostdevice::is_pinned(p);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    return hostdevice::pinned_allocator();
  }
  c10::Device getDeviceFromPtr(void* p) const {
    // Every device can access memory that CUDA has pinned.
    const auto i = is_pinned(p) ? t_current_device : device_of_address(p);
    TORCH_CHECK(
        i >= 0, "The specified pointer resides on host memory and is not registered with any ", kName, " device.");
    return device(i);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex d = -1) const {
    return default_generator(d);
  }
  at::Generator getNewGenerator(c10::DeviceIndex d = -1) const {
    // CUDA checks the index at the first draw.
    if (d >= 0 && !kIsCuda) check_index(d);
    return at::make_generator<GeneratorImpl>(d);  // without an index it serves any device and reports no index
  }

#ifdef HOSTDEVICE_CUDA
  bool hasCUDA() const {
    return device_count() > 0;
  }
  bool hasCUDART() const {
    return device_count() > 0;
  }
  // Programs choose among these libraries by name, and a CUDA build has them. Do not report cuDNN: PyTorch would call
  // it.
  bool hasMAGMA() const {
    return true;
  }
  bool hasCuSOLVER() const {
    return true;
  }
  bool hasCuBLASLt() const {
    return true;
  }
  c10::DeviceIndex current_device() const {
    return t_current_device;
  }
  int getNumGPUs() const {
    return device_count();
  }
  c10::Allocator* getCUDADeviceAllocator() const {
    return device_allocator();
  }
  void deviceSynchronize(c10::DeviceIndex d) const {
    synchronize_device(d);
  }
  std::string showConfig() const {
    return "virtual GPU in host memory\n";
  }
  int64_t cuFFTGetPlanCacheMaxSize(c10::DeviceIndex d) const {
    return fft_plans(check_plan_device(d)).max_size();
  }
  void cuFFTSetPlanCacheMaxSize(c10::DeviceIndex d, int64_t n) const {
    TORCH_CHECK(n >= 0, "cuFFT plan cache size must be non-negative, but got ", n);
    fft_plans(check_plan_device(d)).set_max_size(n);
  }
  int64_t cuFFTGetPlanCacheSize(c10::DeviceIndex d) const {
    return fft_plans(check_plan_device(d)).size();
  }
  void cuFFTClearPlanCache(c10::DeviceIndex d) const {
    fft_plans(check_plan_device(d)).clear();
  }

 private:
  static c10::DeviceIndex check_plan_device(c10::DeviceIndex d) {
    TORCH_CHECK(
        d >= 0 && d < device_count(), "cufft_get_plan_cache: expected 0 <= device_index < ", device_count(),
        "], but got device_index=", static_cast<int>(d));
    return d;
  }
#else
  bool hasMPS() const override {
    return device_count() > 0;
  }
  bool isOnMacOSorNewer(unsigned major = 13, unsigned minor = 0) const override {
    return major < 15 || (major == 15 && minor == 0);  // reports macOS 15.0
  }
  c10::Allocator* getMPSDeviceAllocator() const override {
    return device_allocator();
  }
  void deviceSynchronize() const override {
    synchronize_device(0);
    note_mps_synchronized();
  }
  void commitStream() const override {}
  void emptyCache() const override {
    hostdevice::empty_cache();
  }
  size_t getCurrentAllocatedMemory() const override {
    return memory_in_use(0).first;
  }
  size_t getDriverAllocatedMemory() const override {
    return memory_in_use(0).second;
  }
  size_t getRecommendedMaxMemory() const override {
    return memory_info(0).second;
  }
  size_t getMaxBufferLength() const {
    return memory_info(0).second;
  }
  void setMemoryFraction(double ratio) const override {
    // MPS allows up to 2; here the device's size limits a ratio above 1.
    TORCH_CHECK(ratio >= 0 && ratio <= 2, "invalid high watermark ratio ", ratio);
    set_memory_fraction(0, ratio > 1 || ratio == 0 ? 1.0 : ratio);
  }
  // Signposts are not recorded; only the checks are implemented.
  void profilerStartTrace(const std::string& mode, bool) const override {
    TORCH_CHECK(!tracing().exchange(true), "Tracing Signposts is already enabled ");
    std::stringstream modes(mode);
    for (std::string one; std::getline(modes, one, ',');)
      if (one != "interval" && one != "event") {
        tracing() = false;
        TORCH_CHECK(false, "Invalid Signpost trace mode: ", one);
      }
  }
  void profilerStopTrace() const override {
    tracing() = false;
  }
  uint32_t acquireEvent(bool timing) const override {
    return acquire_mps_event(timing);
  }
  void releaseEvent(uint32_t id) const override {
    release_mps_event(id);
  }
  void recordEvent(uint32_t id) const override {
    record_mps_event(id);
  }
  void waitForEvent(uint32_t id) const override {
    wait_for_mps_event(id);
  }
  void synchronizeEvent(uint32_t id) const override {
    synchronize_mps_event(id);
  }
  bool queryEvent(uint32_t id) const override {
    return query_mps_event(id);
  }
  double elapsedTimeOfEvents(uint32_t first, uint32_t second) const override {
    return elapsed_between_mps_events(first, second);
  }

 private:
  static std::atomic<bool>& tracing() {
    static std::atomic<bool> on{false};
    return on;
  }
#endif
};

}  // namespace

bool install_hooks() {
  // PyTorch creates the hooks object on first use and never replaces it, and importing torch may already have created
  // it. The interface has no fields, so that our object fits into the memory of the existing one.
  static_assert(sizeof(Hooks) == sizeof(HooksBase));
#ifdef HOSTDEVICE_CUDA
  const HooksBase& cached = at::detail::getCUDAHooks();
#else
  const HooksBase& cached = at::detail::getMPSHooks();
#endif
  new (const_cast<HooksBase*>(&cached)) Hooks();
#ifndef HOSTDEVICE_CUDA
  // PyTorch on a Mac is built without CUDA, and cannot be built with both. The interface's base class answers like a
  // build without CUDA.
  new (const_cast<at::CUDAHooksInterface*>(&at::detail::getCUDAHooks())) at::CUDAHooksInterface();
#endif
#ifdef HOSTDEVICE_CUDA
  return at::detail::getCUDAHooks().hasCUDA();
#else
  return at::detail::getMPSHooks().hasMPS();
#endif
}

}  // namespace hostdevice
