// The handle of cuBLAS that PyTorch gives to a thread.
#pragma once

#include "host_cuda/blas.h"
//
#include "host_cuda/torch_api_begin.h"

#include <c10/cuda/CUDAStream.h>

#include "host_cuda/torch_api_end.h"

namespace at::cuda {
inline namespace on_host {
// One for each thread; it follows the current stream, as PyTorch's does.
inline cublasHandle_t getCurrentCUDABlasHandle() {
  static thread_local cublasContext handle;
  handle.stream = c10::cuda::getCurrentCUDAStream().stream();
  return &handle;
}
}  // namespace on_host
}  // namespace at::cuda

#pragma GCC visibility push(hidden)
extern "C" inline int32_t torch_get_current_cuda_blas_handle(void** handle) {
  *handle = at::cuda::getCurrentCUDABlasHandle();
  return 0;
}
#pragma GCC visibility pop
