#pragma once

#include <vector>

#include "host_cuda/over_memory.h"

namespace cub {

// The chosen items in their order, then the others in the reverse of theirs.
struct DevicePartition {
  template <class In, class Flags, class Out, class Count, class N>
  static cudaError_t Flagged(
      void* memory, size_t& bytes, In in, Flags flags, Out out, Count count, N n, cudaStream_t stream = nullptr) {
    return split(memory, bytes, in, out, count, n, stream, [=](std::ptrdiff_t i) { return bool(flags[i]); });
  }
  template <class In, class Out, class Count, class N, class Op>
  static cudaError_t If(
      void* memory, size_t& bytes, In in, Out out, Count count, N n, Op op, cudaStream_t stream = nullptr) {
    return split(memory, bytes, in, out, count, n, stream, [=](std::ptrdiff_t i) mutable { return bool(op(in[i])); });
  }

 private:
  template <class In, class Out, class Count, class N, class Keep>
  static cudaError_t split(
      void* memory, size_t& bytes, In in, Out out, Count count, N n, cudaStream_t stream, Keep keep) {
    return host_cuda::in_two_calls(memory, bytes, stream, "cub::DevicePartition", [=]() mutable {
      std::vector<host_cuda::ValueOf<In>> yes, no;
      for (std::ptrdiff_t i = 0; i < host_cuda::place(n); ++i) (keep(i) ? yes : no).push_back(in[i]);
      for (size_t i = 0; i < yes.size(); ++i) out[static_cast<std::ptrdiff_t>(i)] = yes[i];
      for (size_t i = 0; i < no.size(); ++i) out[host_cuda::place(n) - 1 - static_cast<std::ptrdiff_t>(i)] = no[i];
      *count = static_cast<host_cuda::ValueOf<Count>>(yes.size());
    });
  }
};

}  // namespace cub
