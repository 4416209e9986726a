// How libraries that were compiled from CUDA C++ ask the device: a table of functions, found by one exported name. This
// file is read by them as well (cuda_cpp/include/host_cuda/seam.h), so it needs nothing of PyTorch's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace host_cuda {

constexpr int kSeamVersion = 1;

// What an address is to a GPU: out of its reach, of its own memory, or the host's that it can reach (pinned).
enum class Memory : int { kOther, kDevice, kReached };

// Functions that return int return a cudaError_t, unless they count.
struct Seam {
  int version;
  int (*device_count)();
  int (*get_device)();
  int (*set_device)(int device);
  // The handle of a stream that PyTorch knows by its number; null for the default one.
  void* (*stream_handle)(int device, int64_t id);
  int64_t (*new_stream)(int device, int priority);
  int (*stream_query)(void* stream);
  int (*stream_synchronize)(void* stream);
  int (*device_synchronize)();
  bool (*is_capturing)(void* stream);
  // Does the work, or has the graph do it that the stream is captured into. `work` belongs to the callee.
  int (*launch)(void* stream, const char* name, void (*run)(void*), void (*drop)(void*), void* work);
  // A kernel has ended the device's context, as a failed assertion does.
  void (*failed)(int code, const char* words);
  // The allocation of device memory that an address is in, or the nearest before it, or after it. No bytes: there is
  // none.
  Memory (*find_memory)(const void* address, const char** begin, size_t* bytes);
  int (*multiprocessors)();
};

}  // namespace host_cuda

extern "C" const host_cuda::Seam* torchdevice_kernel_seam(int version);
