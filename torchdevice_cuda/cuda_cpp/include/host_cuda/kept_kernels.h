// Kernels that a program has cast to void*: their types, by which a launch reads the arguments (cuda_cpp/casts.py).
#pragma once

#include <unordered_map>

#include "host_cuda/launch.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

using LaunchKept = cudaError_t (*)(const void* kernel, const Config& config, void** arguments);

class KeptKernels {
 public:
  void add(const void* kernel, LaunchKept launch) {
    const std::lock_guard<std::mutex> lock(mutex_);
    launches_[kernel] = launch;
  }
  LaunchKept find(const void* kernel) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = launches_.find(kernel);
    return found == launches_.end() ? nullptr : found->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, LaunchKept> launches_;
};
inline KeptKernels kept_kernels;  // of the library

template <class... A>
void note_kernel(void (*kernel)(A...)) {
  kept_kernels.add(reinterpret_cast<const void*>(kernel), [](const void* kept, const Config& config, void** arguments) {
    return launch_packed(
        "cudaLaunchKernel", reinterpret_cast<void (*)(A...)>(const_cast<void*>(kept)), config, arguments);
  });
}
// A variable may have the name of a kernel.
template <class T>
T&& keep_kernel(T&& given) {
  if constexpr (std::is_function_v<std::remove_pointer_t<std::decay_t<T>>>) note_kernel(given);
  return static_cast<T&&>(given);
}
inline cudaError_t launch_kept(const void* kernel, const Config& config, void** arguments) {
  if (const auto launch = kept_kernels.find(kernel)) return launch(kernel, config, arguments);
  fprintf(
      stderr,
      "cudaLaunchKernel: the type of a kernel is lost, which was cast to void* from a variable or in another library; "
      "cast the function itself\n");
  return returned(cudaErrorInvalidDeviceFunction);
}

}  // namespace host_cuda
#pragma GCC visibility pop
