// The interface through which libraries compiled from CUDA C++ tell a GPU's clock what their kernels do. These
// libraries include this file, too (cuda_cpp/include/host_cuda/counts.h), so it uses nothing of PyTorch.
#pragma once

#include <cstddef>

namespace host_cuda {

// What a launch moves and computes, estimated from some of its blocks.
struct KernelCounts {
  double traffic;    // bytes that blocks read and write; a block's caches hold what it has used
  double memory;     // of them, those that no cache of the GPU holds
  double footprint;  // bytes of distinct memory
  double operations;
  double products = 0;   // operations in products of matrices
  double scattered = 0;  // of the traffic: sectors that are read for one access, without the next ones
  double warps = 0;      // 0: not known
};

struct KernelTimes {
  // Around each launch. `pointers` are among the kernel's arguments.
  void (*begin)(const char* name, void* stream, const void* const* pointers, size_t count);
  void (*end)(bool is_launched);
  // Whether kernels run: a rehearsal runs none.
  bool (*runs)();
  // When a kernel has run, here or in a graph.
  void (*count)(const KernelCounts& counts);
};

}  // namespace host_cuda

// Null unless the clock is a GPU's.
extern "C" const host_cuda::KernelTimes* torchdevice_kernel_times();
