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
  // The place of the first greatest or least, with its value.
  template <class In, class Out, class N>
  static cudaError_t ArgMax(void* memory, size_t& bytes, In in, Out out, N n, cudaStream_t stream = nullptr) {
    return find(memory, bytes, in, out, n, stream, [](const auto& a, const auto& b) { return a > b; });
  }
  template <class In, class Out, class N>
  static cudaError_t ArgMin(void* memory, size_t& bytes, In in, Out out, N n, cudaStream_t stream = nullptr) {
    return find(memory, bytes, in, out, n, stream, [](const auto& a, const auto& b) { return a < b; });
  }
  template <class In, class Out, class N, class Op, class Call, class T>
  static cudaError_t TransformReduce(
      void* memory, size_t& bytes, In in, Out out, N n, Op op, Call call, T initial, cudaStream_t stream = nullptr) {
    return host_cuda::in_two_calls(memory, bytes, stream, "cub::DeviceReduce", [=]() mutable {
      T total = initial;
      for (std::ptrdiff_t i = 0; i < host_cuda::place(n); ++i) total = op(total, call(in[i]));
      *out = total;
    });
  }
  template <class Keys, class KeysOut, class In, class Out, class Count, class Op, class N>
  static cudaError_t ReduceByKey(
      void* memory, size_t& bytes, Keys keys, KeysOut keys_out, In in, Out out, Count count, Op op, N n,
      cudaStream_t stream = nullptr) {
    return host_cuda::in_two_calls(memory, bytes, stream, "cub::DeviceReduce", [=]() mutable {
      std::ptrdiff_t runs = 0;
      for (std::ptrdiff_t i = 0; i < host_cuda::place(n); ++runs) {
        const std::ptrdiff_t begin = i;
        host_cuda::ValueOf<In> total = in[i];
        for (++i; i < host_cuda::place(n) && keys[i] == keys[begin]; ++i) total = op(total, in[i]);
        keys_out[runs] = keys[begin];
        out[runs] = total;
      }
      *count = static_cast<host_cuda::ValueOf<Count>>(runs);
    });
  }

 private:
  template <class In, class Out, class N, class Better>
  static cudaError_t find(void* memory, size_t& bytes, In in, Out out, N n, cudaStream_t stream, Better better) {
    return host_cuda::in_two_calls(memory, bytes, stream, "cub::DeviceReduce", [=] {
      std::ptrdiff_t best = 0;
      for (std::ptrdiff_t i = 1; i < host_cuda::place(n); ++i)
        if (better(in[i], in[best])) best = i;
      *out = {static_cast<int>(best), in[best]};
    });
  }
};

}  // namespace cub
