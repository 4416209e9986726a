// The end of the process, while threads are still at work.
//
// backward() returns as soon as the gradients are there, while the device's autograd thread is still letting go of the
// graph, Python objects included. If the interpreter ends just then, the thread asks for an interpreter lock that it
// will never get. The thread works in order: once it has done something more for us, it has let go of everything
// before.
//
// A thread may never come to that: a slow kernel, an endless function. It is waited for as long as PyTorch's own engine
// waits for its threads, and then left where it is.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/device.h"
#include "runtime/install.h"
#include "runtime/unwinding.h"

namespace hostdevice {

std::atomic<bool> g_autograd_threads{false};

namespace {

// Seconds, and what they are without it: the engine's.
constexpr const char* kLimitName = "TORCH_AUTOGRAD_SHUTDOWN_WAIT_LIMIT";
constexpr double kLimit = 10.0;

double limit() {
  const char* set = std::getenv(kLimitName);
  return set ? std::atof(set) : kLimit;
}

void pass_through_every_thread() noexcept {
  for (int i = 0; i < device_count(); i++) {
    try {
      // No Python object anywhere in this graph, so nothing to wait for in turn.
      const at::AutoGradMode grad(true);
      const auto options = at::TensorOptions().dtype(at::kFloat).device(device(static_cast<c10::DeviceIndex>(i)));
      at::Tensor leaf = at::ones({1}, options);
      leaf.set_requires_grad(true);
      leaf.neg().backward();
    } catch (...) {
      // A device without a byte left: nothing can be done at this point, and nothing has to be said.
    }
  }
}

// Waits until the autograd threads have let go of every graph; false if they have not within the limit.
bool drained(double seconds) {
  struct Passing {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
  };
  const auto passing = std::make_shared<Passing>();
  std::thread([passing] {
    pass_through_every_thread();
    const std::lock_guard<std::mutex> lock(passing->mutex);
    passing->done = true;
    passing->changed.notify_all();
  }).detach();
  std::unique_lock<std::mutex> lock(passing->mutex);
  return passing->changed.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return passing->done; });
}

}  // namespace

void prepare_exit() noexcept {
  keep_threads_from_unwinding([] { setenv(kLimitName, "0", 1); });
  if (!g_autograd_threads.load() || g_bad_fork) return;
  const double seconds = limit();
  try {
    // The engine would wait for the same threads once more, as long again.
    if (seconds > 0 && !drained(seconds)) setenv(kLimitName, "0", 1);
  } catch (...) {
    // No thread can be started any more: the process ends as it would without us.
  }
}

}  // namespace hostdevice
