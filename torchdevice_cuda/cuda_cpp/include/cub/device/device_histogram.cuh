#pragma once

#include <algorithm>

#include "host_cuda/over_memory.h"

namespace cub {

struct DeviceHistogram {
  // Between two bounds, in bins of one width.
  template <class In, class Count, class Level, class N>
  static cudaError_t HistogramEven(
      void* memory, size_t& bytes, In in, Count* histogram, int levels, Level lower, Level upper, N n,
      cudaStream_t stream = nullptr) {
    return host_cuda::in_two_calls(memory, bytes, stream, "cub::DeviceHistogram", [=] {
      std::fill(histogram, histogram + levels - 1, Count(0));
      for (std::ptrdiff_t i = 0; i < host_cuda::place(n); ++i) {
        const auto x = in[i];
        if (!(x >= lower && x < upper)) continue;
        const double share = double(x - lower) / double(upper - lower);
        ++histogram[std::min(levels - 2, static_cast<int>(share * (levels - 1)))];
      }
    });
  }
  template <class In, class Count, class Level, class N>
  static cudaError_t HistogramRange(
      void* memory, size_t& bytes, In in, Count* histogram, int levels, const Level* bounds, N n,
      cudaStream_t stream = nullptr) {
    return host_cuda::in_two_calls(memory, bytes, stream, "cub::DeviceHistogram", [=] {
      std::fill(histogram, histogram + levels - 1, Count(0));
      for (std::ptrdiff_t i = 0; i < host_cuda::place(n); ++i) {
        const auto bin = std::upper_bound(bounds, bounds + levels, static_cast<Level>(in[i])) - bounds - 1;
        if (bin >= 0 && bin < levels - 1) ++histogram[bin];
      }
    });
  }
};

}  // namespace cub
