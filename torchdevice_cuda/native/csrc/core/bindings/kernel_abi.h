// The interface through which libraries compiled from CUDA C++ call the device: a table of functions, found by one
// exported name. These libraries include this file, too (cuda_cpp/include/host_cuda/kernel_abi.h), so it uses nothing
// of PyTorch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace host_cuda {

constexpr int kKernelAbiVersion = 2;

// What an address is to a GPU: inaccessible, device memory, or accessible host memory (pinned).
enum class Memory : int { kOther, kDevice, kReached };

// Functions that return int return a cudaError_t, unless they return a count or a device.
struct KernelAbi {
  int version;
  int (*device_count)();
  int (*get_device)();
  int (*set_device)(int device);
  // Return the handle of a stream that PyTorch identifies by `id`; null for the default stream.
  void* (*stream_handle)(int device, int64_t id);
  int64_t (*new_stream)(int device, int priority);
  int (*stream_query)(void* stream);
  int (*stream_synchronize)(void* stream);
  int (*device_synchronize)();
  bool (*is_capturing)(void* stream);
  // Run the work, or add it to the graph that captures the stream. The callee owns `work`; `pointers` are among its
  // arguments.
  int (*launch)(
      void* stream, const char* name, void (*run)(void*), void (*drop)(void*), void* work, const void* const* pointers,
      size_t count);
  // Record that a kernel has destroyed the device's context, for example by a failed assertion.
  void (*report_failure)(int code, const char* message);
  // Find the device allocation that holds an address, or else the nearest one before it, or else after it. `bytes` is
  // 0 if there is none.
  Memory (*find_memory)(const void* address, const char** begin, size_t* bytes);
  int (*multiprocessors)();
};

}  // namespace host_cuda

extern "C" const host_cuda::KernelAbi* torchdevice_kernel_abi(int version);
