// CUDA's errors: the codes, their names and words, and the last one of this library.
#pragma once

#include <atomic>
#include <cstdio>
#include <cstdlib>

// clang-format off: one row a line
#define HOST_CUDA_ERRORS(row)                                                                                      \
  row(cudaSuccess, 0, "no error")                                                                                  \
  row(cudaErrorInvalidValue, 1, "invalid argument")                                                                \
  row(cudaErrorMemoryAllocation, 2, "out of memory")                                                               \
  row(cudaErrorInitializationError, 3, "initialization error")                                                     \
  row(cudaErrorCudartUnloading, 4, "driver shutting down")                                                         \
  row(cudaErrorProfilerDisabled, 5, "profiler disabled while using external profiling tool")                       \
  row(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                                          \
  row(cudaErrorInvalidPitchValue, 12, "invalid pitch argument")                                                    \
  row(cudaErrorInvalidSymbol, 13, "invalid device symbol")                                                         \
  row(cudaErrorInvalidHostPointer, 16, "invalid host pointer")                                                     \
  row(cudaErrorInvalidDevicePointer, 17, "invalid device pointer")                                                 \
  row(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")                                    \
  row(cudaErrorInsufficientDriver, 35, "CUDA driver version is insufficient for CUDA runtime version")             \
  row(cudaErrorDevicesUnavailable, 46, "CUDA-capable device(s) is/are busy or unavailable")                        \
  row(cudaErrorMissingConfiguration, 52, "__global__ function call is not configured")                             \
  row(cudaErrorInvalidDeviceFunction, 98, "invalid device function")                                               \
  row(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                                                \
  row(cudaErrorInvalidDevice, 101, "invalid device ordinal")                                                       \
  row(cudaErrorInvalidKernelImage, 200, "device kernel image is invalid")                                          \
  row(cudaErrorDeviceUninitialized, 201, "invalid device context")                                                 \
  row(cudaErrorNoKernelImageForDevice, 209, "no kernel image is available for execution on the device")            \
  row(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                                              \
  row(cudaErrorNotReady, 600, "device not ready")                                                                  \
  row(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")                                    \
  row(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")                               \
  row(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated")                                      \
  row(cudaErrorPeerAccessAlreadyEnabled, 704, "peer access is already enabled")                                    \
  row(cudaErrorPeerAccessNotEnabled, 705, "peer access has not been enabled")                                      \
  row(cudaErrorAssert, 710, "device-side assert triggered")                                                        \
  row(cudaErrorHostMemoryAlreadyRegistered, 712, "part or all of the requested memory range is already mapped")    \
  row(cudaErrorHostMemoryNotRegistered, 713, "pointer does not correspond to a registered memory region")          \
  row(cudaErrorHardwareStackError, 714, "hardware stack error")                                                    \
  row(cudaErrorIllegalInstruction, 715, "an illegal instruction was encountered")                                  \
  row(cudaErrorMisalignedAddress, 716, "misaligned address")                                                       \
  row(cudaErrorInvalidAddressSpace, 717, "operation not supported on global/shared address space")                 \
  row(cudaErrorInvalidPc, 718, "invalid program counter")                                                          \
  row(cudaErrorLaunchFailure, 719, "unspecified launch failure")                                                   \
  row(cudaErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch")                            \
  row(cudaErrorNotPermitted, 800, "operation not permitted")                                                       \
  row(cudaErrorNotSupported, 801, "operation not supported")                                                       \
  row(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing")                  \
  row(cudaErrorStreamCaptureInvalidated, 901, "operation failed due to a previous error during capture")           \
  row(cudaErrorUnknown, 999, "unknown error")
// clang-format on

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
