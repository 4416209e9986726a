// A call of CUDA's that failed becomes PyTorch's error, in CUDA's words.
#pragma once
#include <c10/cuda/CUDAMacros.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>
#include <torch/version.h>

namespace c10 {
class CUDAError : public c10::Error {
  using Error::Error;
};
}  // namespace c10

namespace c10::cuda {
inline namespace on_host {
[[noreturn]] inline void throw_accelerator_error(
    c10::SourceLocation where, [[maybe_unused]] int code, const std::string& text) {
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 8  // torch.AcceleratorError came with 2.8
  throw c10::AcceleratorError(where, code, text);
#else
  throw c10::Error(where, text);
#endif
}
[[noreturn]] inline void host_cuda_failed(cudaError_t error, const char* file, const char* function, unsigned line) {
  const std::string text = std::string("CUDA error: ") + cudaGetErrorString(error) + "\nSearch for `" +
      cudaGetErrorName(error) +
      "' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.\n"
      "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
      "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
      "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n";
  throw_accelerator_error({function, file, static_cast<uint32_t>(line)}, error, text);
}
inline void c10_cuda_check_implementation(
    int32_t error, const char* file, const char* function, unsigned line, bool = true) {
  if (error != cudaSuccess) host_cuda_failed(static_cast<cudaError_t>(error), file, function, line);
}
}  // namespace on_host
}  // namespace c10::cuda

#define C10_CUDA_CHECK(EXPR)                                                                 \
  do {                                                                                       \
    const cudaError_t host_cuda_error = EXPR;                                                \
    (void)cudaGetLastError();                                                                \
    c10::cuda::c10_cuda_check_implementation(host_cuda_error, __FILE__, __func__, __LINE__); \
  } while (0)
#define C10_CUDA_CHECK_WARN(EXPR)                                        \
  do {                                                                   \
    const cudaError_t host_cuda_error = EXPR;                            \
    if (host_cuda_error != cudaSuccess) {                                \
      (void)cudaGetLastError();                                          \
      TORCH_WARN("CUDA warning: ", cudaGetErrorString(host_cuda_error)); \
    }                                                                    \
  } while (0)
#define C10_CUDA_ERROR_HANDLED(EXPR) EXPR
#define C10_CUDA_IGNORE_ERROR(EXPR) \
  do {                              \
    (void)(EXPR);                   \
    (void)cudaGetLastError();       \
  } while (0)
#define C10_CUDA_CLEAR_ERROR() (void)cudaGetLastError()
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
