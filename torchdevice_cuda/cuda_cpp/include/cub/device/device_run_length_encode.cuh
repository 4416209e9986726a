#pragma once

#include "host_cuda/over_memory.h"

namespace cub {

struct DeviceRunLengthEncode {
  template <class In, class Out, class Lengths, class Count, class N>
  static cudaError_t Encode(
      void* memory, size_t& bytes, In in, Out out, Lengths lengths, Count count, N n, cudaStream_t stream = nullptr) {
    return host_cuda::in_two_calls(memory, bytes, stream, "cub::DeviceRunLengthEncode", [=] {
      std::ptrdiff_t runs = 0;
      for (std::ptrdiff_t i = 0; i < host_cuda::place(n); ++runs) {
        const std::ptrdiff_t begin = i;
        while (i < host_cuda::place(n) && in[i] == in[begin]) ++i;
        out[runs] = in[begin];
        lengths[runs] = static_cast<host_cuda::ValueOf<Lengths>>(i - begin);
      }
      *count = static_cast<host_cuda::ValueOf<Count>>(runs);
    });
  }
};

}  // namespace cub
