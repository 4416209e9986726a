#pragma once
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <cuda_runtime.h>

#ifdef HOST_CUDA_TRANSLATED
template <class T>
static inline T gpuAtomicAdd(T* address, host_cuda::Same<T> value) {
  return atomicAdd(address, value);
}
template <class T>
static inline void gpuAtomicAddNoReturn(T* address, host_cuda::Same<T> value) {
  atomicAdd(address, value);
}
static inline void gpuAtomicAdd(bool* address, bool value) {
  *address = *address || value;
}
template <class T>
static inline T gpuAtomicMul(T* address, host_cuda::Same<T> value) {
  return host_cuda::exchanged(address, [&](T old) { return static_cast<T>(old * value); });
}
template <class T>
static inline T gpuAtomicMax(T* address, host_cuda::Same<T> value) {
  return atomicMax(address, value);
}
template <class T>
static inline T gpuAtomicMin(T* address, host_cuda::Same<T> value) {
  return atomicMin(address, value);
}
#endif
