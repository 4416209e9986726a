#pragma once

#include "host_cuda/over_memory.h"

namespace cub {

struct DeviceSelect {
  template <class In, class Flags, class Out, class Count, class N>
  static cudaError_t Flagged(
      void* memory, size_t& bytes, In in, Flags flags, Out out, Count count, N n, cudaStream_t stream = nullptr) {
    return where(memory, bytes, out, count, n, stream, in, [=](std::ptrdiff_t i) { return bool(flags[i]); });
  }
  template <class In, class Out, class Count, class N, class Op>
  static cudaError_t If(
      void* memory, size_t& bytes, In in, Out out, Count count, N n, Op op, cudaStream_t stream = nullptr) {
    return where(memory, bytes, out, count, n, stream, in, [=](std::ptrdiff_t i) mutable { return bool(op(in[i])); });
  }
  template <class In, class Out, class Count, class N>
  static cudaError_t Unique(
      void* memory, size_t& bytes, In in, Out out, Count count, N n, cudaStream_t stream = nullptr) {
    return where(
        memory, bytes, out, count, n, stream, in, [=](std::ptrdiff_t i) { return i == 0 || !(in[i] == in[i - 1]); });
  }

 private:
  template <class Out, class Count, class N, class In, class Keep>
  static cudaError_t where(
      void* memory, size_t& bytes, Out out, Count count, N n, cudaStream_t stream, In in, Keep keep) {
    return host_cuda::in_two_calls(memory, bytes, stream, "cub::DeviceSelect", [=]() mutable {
      std::vector<host_cuda::ValueOf<In>> kept;  // out may be the same memory
      for (std::ptrdiff_t i = 0; i < host_cuda::place(n); ++i)
        if (keep(i)) kept.push_back(in[i]);
      for (size_t i = 0; i < kept.size(); ++i) out[host_cuda::place(i)] = kept[i];
      *count = static_cast<host_cuda::ValueOf<Count>>(kept.size());
    });
  }
};

}  // namespace cub
