// What the device answers, where there is a virtual GPU in this process; its library exports one function for it.
// Without it tensors are plain memory: one device, one stream, work is done where it is asked for.
#pragma once

#include <dlfcn.h>

#include <cstdint>

#include "../../../native/csrc/core/bindings/kernel_abi.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

// The name of a section tells a library with kernels from others without reading all of it (cuda_cpp/extensions.py).
#ifdef __APPLE__
__attribute__((used, section("__DATA,td_cuda_kernels")))
#else
__attribute__((used, section("td_cuda_kernels")))
#endif
static const char kHasKernels = 1;

inline const KernelAbi* find_kernel_abi() {
  using Get = const KernelAbi* (*)(int version);
  const auto get = reinterpret_cast<Get>(dlsym(RTLD_DEFAULT, "torchdevice_kernel_abi"));
  return get ? get(kKernelAbiVersion) : nullptr;
}
inline const KernelAbi* kernel_abi() {
  // Asked for once there is one: a library may be loaded before the device is.
  static const KernelAbi* found = nullptr;
  if (!found) found = find_kernel_abi();
  return found;
}

}  // namespace host_cuda
#pragma GCC visibility pop
