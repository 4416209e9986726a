#include "runtime/device.h"

#include "runtime/allocator.h"

#include <pthread.h>

#include <cstdlib>
#include <cstring>

namespace hostdevice {

std::atomic<int> g_device_count{0};
thread_local c10::DeviceIndex t_current_device = 0;
bool g_bad_fork = false;
std::atomic<bool> g_used{false};
std::atomic<uint64_t> g_contexts{0};

// Read CUDA_LAUNCH_BLOCKING like CUDA: any value except an empty one and 0 enables it.
bool is_launch_blocking() {
  const char* value = std::getenv("CUDA_LAUNCH_BLOCKING");
  return value && *value && std::strcmp(value, "0") != 0;
}

void throw_cuda_error(int code, const std::string& what) {
  constexpr const char* kLate =
      "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
      "incorrect.\n"
      "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n";
  throw_accelerator_error(
      code,
      "CUDA error: " + what + "\n" + (is_launch_blocking() ? "" : kLate) +
          "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n");
}

void throw_invalid_ordinal() {
  constexpr int kCudaErrorInvalidDevice = 101;
  throw_cuda_error(
      kCudaErrorInvalidDevice, "invalid device ordinal\nGPU device may be out of range, do you have enough GPUs?");
}

void throw_bad_fork() {
  TORCH_CHECK(kIsCuda, "would crash the process on a Mac: Metal does not survive a fork");
  TORCH_CHECK(
      false,
      "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' "
      "start method");
}

void install_fork_handlers() {
  static bool done = false;
  if (done) return;
  done = true;
  pthread_atfork(
      [] { lock_all_for_fork(); }, [] { unlock_all_after_fork(); },
      [] {
        unlock_all_after_fork();
        if (g_used.load(std::memory_order_relaxed)) g_bad_fork = true;
      });
}

}  // namespace hostdevice
