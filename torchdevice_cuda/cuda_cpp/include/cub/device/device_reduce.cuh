#pragma once

#include <limits>

#include "host_cuda/over_memory.h"

namespace cub {

struct DeviceReduce {
  template <class In, class Out, class N, class Op, class T>
  static cudaError_t Reduce(
      void* memory, size_t& bytes, In in, Out out, N n, Op op, T initial, cudaStream_t stream = nullptr) {
    return host_cuda::in_two_calls(memory, bytes, stream, "cub::DeviceReduce", [=] {
      *out = n > 0 ? op(initial, host_cuda::folded_range<T>(in, static_cast<size_t>(n), op)) : initial;
    });
  }
  // In the type of the result.
  template <class In, class Out, class N>
  static cudaError_t Sum(void* memory, size_t& bytes, In in, Out out, N n, cudaStream_t stream = nullptr) {
    return Reduce(memory, bytes, in, out, n, cub::Sum(), host_cuda::ValueOf<Out>{}, stream);
  }
  template <class In, class Out, class N>
  static cudaError_t Min(void* memory, size_t& bytes, In in, Out out, N n, cudaStream_t stream = nullptr) {
    using T = host_cuda::ValueOf<In>;
    return Reduce(memory, bytes, in, out, n, cub::Min(), std::numeric_limits<T>::max(), stream);
  }
  template <class In, class Out, class N>
  static cudaError_t Max(void* memory, size_t& bytes, In in, Out out, N n, cudaStream_t stream = nullptr) {
    using T = host_cuda::ValueOf<In>;
    return Reduce(memory, bytes, in, out, n, cub::Max(), std::numeric_limits<T>::lowest(), stream);
  }
};

}  // namespace cub
