#pragma once

#include <limits>

#include "host_cuda/over_memory.h"

namespace cub {

struct DeviceSegmentedReduce {
  template <class In, class Out, class Begins, class Ends, class Op, class T>
  static cudaError_t Reduce(
      void* memory, size_t& bytes, In in, Out out, int segments, Begins begins, Ends ends, Op op, T initial,
      cudaStream_t stream = nullptr) {
    return host_cuda::in_two_calls(memory, bytes, stream, "cub::DeviceSegmentedReduce", [=] {
      for (int i = 0; i < segments; ++i) {
        const auto begin = host_cuda::place(begins[i]), end = host_cuda::place(ends[i]);
        out[i] = end > begin ? op(initial, host_cuda::folded_range<T>(in + begin, static_cast<size_t>(end - begin), op))
                             : initial;
      }
    });
  }
  template <class In, class Out, class Begins, class Ends>
  static cudaError_t Sum(
      void* memory, size_t& bytes, In in, Out out, int segments, Begins begins, Ends ends,
      cudaStream_t stream = nullptr) {
    return Reduce(memory, bytes, in, out, segments, begins, ends, cub::Sum(), host_cuda::ValueOf<Out>{}, stream);
  }
  template <class In, class Out, class Begins, class Ends>
  static cudaError_t Min(
      void* memory, size_t& bytes, In in, Out out, int segments, Begins begins, Ends ends,
      cudaStream_t stream = nullptr) {
    using T = host_cuda::ValueOf<In>;
    return Reduce(memory, bytes, in, out, segments, begins, ends, cub::Min(), std::numeric_limits<T>::max(), stream);
  }
  template <class In, class Out, class Begins, class Ends>
  static cudaError_t Max(
      void* memory, size_t& bytes, In in, Out out, int segments, Begins begins, Ends ends,
      cudaStream_t stream = nullptr) {
    using T = host_cuda::ValueOf<In>;
    return Reduce(memory, bytes, in, out, segments, begins, ends, cub::Max(), std::numeric_limits<T>::lowest(), stream);
  }
};

}  // namespace cub
