// CUDA's errors: the codes, their names and words, and the last one of this library.
#pragma once

#include <atomic>
#include <cstdio>
#include <cstdlib>

#define HOST_CUDA_ERRORS(row)                                                                                         \
  row(cudaSuccess, 0, "no error") row(cudaErrorInvalidValue, 1, "invalid argument")                                   \
      row(cudaErrorMemoryAllocation, 2, "out of memory") row(cudaErrorInitializationError, 3, "initialization error") \
          row(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                                     \
              row(cudaErrorInvalidSymbol, 13, "invalid device symbol")                                                \
                  row(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")                       \
                      row(cudaErrorInvalidDeviceFunction, 98, "invalid device function")                              \
                          row(cudaErrorNoDevice, 100, "no CUDA-capable device is detected") row(                      \
                              cudaErrorInvalidDevice, 101, "invalid device ordinal")                                  \
                              row(cudaErrorInvalidResourceHandle, 400, "invalid resource handle") row(                \
                                  cudaErrorNotReady, 600, "device not ready")                                         \
                                  row(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered") row(  \
                                      cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")  \
                                      row(cudaErrorPeerAccessAlreadyEnabled, 704, "peer access is already enabled")   \
                                          row(cudaErrorAssert, 710, "device-side assert triggered")                   \
                                              row(cudaErrorMisalignedAddress, 716, "misaligned address")              \
                                                  row(cudaErrorLaunchFailure, 719, "unspecified launch failure")      \
                                                      row(cudaErrorNotSupported, 801, "operation not supported")      \
                                                          row(cudaErrorStreamCaptureUnsupported, 900,                 \
                                                              "operation not permitted when stream is capturing")     \
                                                              row(cudaErrorUnknown, 999, "unknown error")

enum cudaError {
#define HOST_CUDA_ROW(name, code, words) name = code,
  HOST_CUDA_ERRORS(HOST_CUDA_ROW)
#undef HOST_CUDA_ROW
};
typedef enum cudaError cudaError_t;

static inline const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
#define HOST_CUDA_ROW(name, code, words) \
  case name:                             \
    return words;
    HOST_CUDA_ERRORS(HOST_CUDA_ROW)
#undef HOST_CUDA_ROW
  }
  return "unrecognized error code";
}
static inline const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define HOST_CUDA_ROW(name, code, words) \
  case name:                             \
    return #name;
    HOST_CUDA_ERRORS(HOST_CUDA_ROW)
#undef HOST_CUDA_ROW
  }
  return "unrecognized error code";
}

#pragma GCC visibility push(hidden)
namespace host_cuda {

// What a call returned last, which cudaGetLastError forgets; and what ended a kernel, which stays, as on a GPU.
inline std::atomic<int> last_error{cudaSuccess};
inline std::atomic<int> lasting_error{cudaSuccess};

inline cudaError_t returned(cudaError_t error) {
  if (error != cudaSuccess) last_error.store(error);
  return error;
}
inline cudaError_t standing() {
  return static_cast<cudaError_t>(lasting_error.load());
}

}  // namespace host_cuda
#pragma GCC visibility pop
