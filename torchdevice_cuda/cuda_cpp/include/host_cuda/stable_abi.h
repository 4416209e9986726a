// The functions for CUDA of PyTorch's stable ABI. They are the library's own: a CPU build of PyTorch lacks them, and
// those of a CUDA build know another device.
#pragma once

#include "host_cuda/torch_api_begin.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#if __has_include(<torch/csrc/shim_exception_state.h>)
#include <torch/csrc/shim_exception_state.h>
#else
#include <iostream>
#endif

#include "host_cuda/torch_api_end.h"

struct CUDAGuardOpaque;
using CUDAGuardHandle = CUDAGuardOpaque*;
struct CUDAStreamGuardOpaque;
using CUDAStreamGuardHandle = CUDAStreamGuardOpaque*;

#pragma GCC visibility push(hidden)
namespace host_cuda {

inline int32_t record_failure([[maybe_unused]] const char* whole, [[maybe_unused]] const char* message) {
#if __has_include(<torch/csrc/shim_exception_state.h>)
  torch::csrc::shim::details::set_torch_exception_what(whole);
  torch::csrc::shim::details::set_torch_exception_what_without_backtrace(message);
#else
  std::cerr << "Exception in aoti_torch: " << message << '\n';
#endif
  return 1;
}
// Call a function of C++; return the error code of the stable ABI.
template <class F>
int32_t call_stably(F call) {
  try {
    call();
  } catch (const c10::Error& e) {
    return record_failure(e.what(), e.what_without_backtrace());
  } catch (const std::exception& e) {
    return record_failure(e.what(), e.what());
  }
  return 0;
}
inline c10::cuda::CUDAStream external_stream(void* stream, int32_t device) {
  return c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream), static_cast<c10::DeviceIndex>(device));
}

}  // namespace host_cuda

extern "C" {

inline int32_t aoti_torch_create_cuda_guard(int32_t device, CUDAGuardHandle* guard) {
  return host_cuda::call_stably([=] {
    *guard = reinterpret_cast<CUDAGuardHandle>(new c10::cuda::CUDAGuard(static_cast<c10::DeviceIndex>(device)));
  });
}
inline int32_t aoti_torch_delete_cuda_guard(CUDAGuardHandle guard) {
  return host_cuda::call_stably([=] { delete reinterpret_cast<c10::cuda::CUDAGuard*>(guard); });
}
inline int32_t aoti_torch_cuda_guard_set_index(CUDAGuardHandle guard, int32_t device) {
  return host_cuda::call_stably(
      [=] { reinterpret_cast<c10::cuda::CUDAGuard*>(guard)->set_index(static_cast<c10::DeviceIndex>(device)); });
}
inline int32_t aoti_torch_create_cuda_stream_guard(void* stream, int32_t device, CUDAStreamGuardHandle* guard) {
  return host_cuda::call_stably([=] {
    *guard = reinterpret_cast<CUDAStreamGuardHandle>(
        new c10::cuda::CUDAStreamGuard(host_cuda::external_stream(stream, device).unwrap()));
  });
}
inline int32_t aoti_torch_delete_cuda_stream_guard(CUDAStreamGuardHandle guard) {
  return host_cuda::call_stably([=] { delete reinterpret_cast<c10::cuda::CUDAStreamGuard*>(guard); });
}
inline int32_t aoti_torch_get_current_cuda_stream(int32_t device, void** stream) {
  return host_cuda::call_stably(
      [=] { *stream = c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream(); });
}
inline int32_t aoti_torch_cuda_caching_allocator_raw_alloc(uint64_t bytes, void** p) {
  return host_cuda::call_stably([=] { *p = c10::cuda::CUDACachingAllocator::raw_alloc(bytes); });
}
inline int32_t aoti_torch_cuda_caching_allocator_raw_delete(void* p) {
  return host_cuda::call_stably([=] { c10::cuda::CUDACachingAllocator::raw_delete(p); });
}
inline int32_t torch_set_current_cuda_stream(void* stream, int32_t device) {
  return host_cuda::call_stably([=] { c10::cuda::setCurrentCUDAStream(host_cuda::external_stream(stream, device)); });
}
inline int32_t torch_get_cuda_stream_from_pool(bool high, int32_t device, void** stream) {
  return host_cuda::call_stably(
      [=] { *stream = c10::cuda::getStreamFromPool(high, static_cast<c10::DeviceIndex>(device)).stream(); });
}
inline int32_t torch_cuda_stream_synchronize(void* stream, int32_t device) {
  return host_cuda::call_stably([=] { host_cuda::external_stream(stream, device).synchronize(); });
}
inline int32_t torch_c10_cuda_check_msg(
    int32_t error, const char* file, const char* function, uint32_t line, bool, char** message) {
  *message = nullptr;
  try {
    c10::cuda::c10_cuda_check_implementation(error, file, function, line);
  } catch (const c10::Error& e) {
    *message = strdup(e.what_without_backtrace());
  }
  return 0;
}
inline void torch_c10_cuda_free_error_msg(char* message) {
  free(message);
}

}  // extern "C"
#pragma GCC visibility pop

#ifdef CUBLAS_V2_H_
#include "host_cuda/current_blas.h"
#endif
