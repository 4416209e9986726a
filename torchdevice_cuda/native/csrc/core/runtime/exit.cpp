// The end of the process while threads still run.
//
// backward() returns as soon as the gradients exist, while the device's autograd thread still destroys the graph, which
// may hold Python objects. If the interpreter finalizes at that moment, the thread waits for the GIL forever. The
// thread works in order: once it has run another backward pass for us, it has destroyed all earlier graphs.
//
// A thread may never get to that, because of a slow kernel or an endless function. We wait for it as long as PyTorch's
// own engine waits for its threads, and then leave it running.
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

// The autograd engine's limit in seconds, and its default.
constexpr const char* kLimitName = "TORCH_AUTOGRAD_SHUTDOWN_WAIT_LIMIT";
constexpr double kLimit = 10.0;

double limit() {
  const char* set = std::getenv(kLimitName);
  return set ? std::atof(set) : kLimit;
}

void run_empty_backward() noexcept {
  for (int i = 0; i < device_count(); i++) {
    try {
      // This graph holds no Python object, so that its destruction needs no GIL.
      const at::AutoGradMode grad(true);
      const auto options = at::TensorOptions().dtype(at::kFloat).device(device(static_cast<c10::DeviceIndex>(i)));
      at::Tensor leaf = at::ones({1}, options);
      leaf.set_requires_grad(true);
      leaf.neg().backward();
    } catch (...) {
      // The device is out of memory: nothing can be done at this point, and no message is needed.
    }
  }
}

// Wait until the autograd threads have destroyed every graph; return false if the limit passes first.
bool wait_for_autograd_threads(double seconds) {
  struct Completion {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
  };
  const auto completion = std::make_shared<Completion>();
  std::thread([completion] {
    run_empty_backward();
    const std::lock_guard<std::mutex> lock(completion->mutex);
    completion->done = true;
    completion->changed.notify_all();
  }).detach();
  std::unique_lock<std::mutex> lock(completion->mutex);
  return completion->changed.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return completion->done; });
}

}  // namespace

void prepare_exit() noexcept {
  keep_threads_from_unwinding([] { setenv(kLimitName, "0", 1); });
  if (!g_autograd_threads.load() || g_bad_fork) return;
  const double seconds = limit();
  try {
    // The engine would wait for the same threads again, just as long.
    if (seconds > 0 && !wait_for_autograd_threads(seconds)) setenv(kLimitName, "0", 1);
  } catch (...) {
    // No thread can be started any more: the process ends as it would without this wait.
  }
}

}  // namespace hostdevice
