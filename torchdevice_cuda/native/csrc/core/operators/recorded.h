// Wrappers of the device's kernels, which record a call while a graph is captured, for later replays, and report it to
// profilers.
#pragma once

#include <ATen/core/boxing/BoxedKernel.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/boxing/impl/boxing.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <atomic>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "runtime/activities.h"
#include "runtime/captures.h"
#include "runtime/device.h"
#include "runtime/failure.h"
#include "runtime/streams.h"

namespace hostdevice {

// Handles an intercepted call: calls the operator's kernel at `key`, as one piece of work. A part that intercepts calls
// replaces this function, and passes the calls that it does not handle to the function that it replaced: graphs record
// the calls of streams that are capturing.
using Record = void (*)(const c10::OperatorHandle& op, c10::DispatchKeySet key, torch::jit::Stack* stack);
extern Record g_record;

// Handles intercepted work outside of operators, which writes into newly allocated memory.
using RecordWork = void (*)(const char* name, c10::DeviceIndex device, const std::function<void()>& work);
extern RecordWork g_record_work;
template <class F>
void work_on_device(const char* name, c10::DeviceIndex device, const F& work) {
  if (is_intercepted()) {
    g_record_work(name, device, work);
    return;
  }
  check_before_launch(device);
  DeviceWork launch;
  if (is_profiled()) launch.begin(name, device);
  work();
}

// What another process sends to deferred work, which runs after that has come. Empty for other work.
struct Arrival {
  std::function<bool()> has_come;
  std::function<void()> wait;
};
// Issues work to a stream, to run later. Null: no part defers work.
using Defer = void (*)(StreamState& stream, const char* name, std::function<void()> work, Arrival arrival);
extern std::atomic<Defer> g_defer;
// Whether work outside of operators may run later.
inline bool may_run_later() {
  return C10_UNLIKELY(g_defer.load(std::memory_order_relaxed) != nullptr) && !t_in_node && !has_captures() &&
      !is_profiled();
}
// Issue work that runs later; return false if it has to run at once.
template <class F>
bool run_later(StreamState& stream, const char* name, F&& work) {
  if (!may_run_later()) return false;
  g_defer.load(std::memory_order_relaxed)(stream, name, std::forward<F>(work), {});
  return true;
}

struct OperatorInfo;
// Return the device that a call computes on.
c10::DeviceIndex device_of_call(const OperatorInfo& f, c10::ArrayRef<c10::IValue> arguments);

// Return the device of a call: that of its first device tensor, or the current one.
inline c10::DeviceIndex find_launch_device() {
  return t_current_device;
}
template <class First, class... Rest>
c10::DeviceIndex find_launch_device(const First& first, const Rest&... rest) {
  if constexpr (std::is_same_v<First, at::Tensor>)
    if (first.defined() && first.device().type() == kType) return first.device().index();
  return find_launch_device(rest...);
}

// Compare devices as the wrapper of a CUDA kernel does: return if they may differ, otherwise raise CUDA's error.
void compare_devices(const c10::OperatorHandle& op, const torch::jit::Stack& arguments);
template <class... A>
bool on_several_devices(const A&... a) {
  std::optional<c10::Device> one;
  bool several = false;
  const auto look = [&](const auto& argument) {
    if constexpr (std::is_same_v<std::decay_t<decltype(argument)>, at::Tensor>) {
      if (!argument.defined()) return;
      several = several || (one && *one != argument.device());
      one = argument.device();
    }
  };
  (look(a), ...);
  return several;
}

// Whether a profiler is to see the operators that an operator calls, as with CUDA. Outside of profiles, calling the
// CPU's kernel as a whole takes less time.
inline bool shows_parts() {
  return kIsCuda && is_recording() && !DeviceWork::is_in_progress();
}

// A typed kernel with these checks. All work on the device goes through one of these or through the boxed kernel; calls
// inside a kernel are part of it.
// kComparesItself: the kernel compares the devices of its arguments itself, because CPU scalars are allowed.
template <class F, bool kComparesItself = false, class Signature = typename F::FuncType>
struct Recorded;

template <class F, bool kComparesItself, class R, class... A>
struct Recorded<F, kComparesItself, R(A...)> {
  c10::OperatorHandle op;
  c10::DispatchKey key;
  bool calls_parts = false;  // a profile shows the operators that CUDA calls for it

  R operator()(A... a) const {
    if (kIsCuda && !kComparesItself && C10_UNLIKELY(on_several_devices(a...))) {
      torch::jit::Stack arguments;
      (arguments.emplace_back(a), ...);
      compare_devices(op, arguments);
    }
    if (is_intercepted()) {
      return c10::impl::BoxedKernelWrapper<R(A...)>::call(
          c10::BoxedKernel::makeFromFunction<&record>(), op, c10::DispatchKeySet(key), std::forward<A>(a)...);
    }
    if (C10_UNLIKELY(g_failed.load(std::memory_order_relaxed) != 0)) check_before_launch(find_launch_device(a...));
    DeviceWork launch;
    if (is_profiled()) {
      if (calls_parts && shows_parts())
        return op.typed<R(A...)>().redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), std::forward<A>(a)...);
      launch.begin(op.schema().name(), find_launch_device(a...));
    }
    return (*F::func_ptr())(std::forward<A>(a)...);
  }

 private:
  static void record(const c10::OperatorHandle& called, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    g_record(called, keys, stack);
  }
};

}  // namespace hostdevice
