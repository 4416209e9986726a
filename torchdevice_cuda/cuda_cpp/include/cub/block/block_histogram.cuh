// How often each value occurs among the items of a block.
#pragma once

#include "cub/util_type.cuh"

namespace cub {

enum BlockHistogramAlgorithm { BLOCK_HISTO_SORT, BLOCK_HISTO_ATOMIC };

template <
    class T, int kX, int kItems, int kBins, BlockHistogramAlgorithm = BLOCK_HISTO_SORT, int kY = 1, int kZ = 1, int = 0>
class BlockHistogram {
 public:
  typedef NullType TempStorage;
  BlockHistogram() = default;
  explicit BlockHistogram(TempStorage&) {}

  template <class Count>
  void InitHistogram(Count (&histogram)[kBins]) {
    for (int i = static_cast<int>(host_cuda::block_rank()); i < kBins; i += kX * kY * kZ) histogram[i] = 0;
  }
  template <class Count>
  void Histogram(T (&items)[kItems], Count (&histogram)[kBins]) {
    InitHistogram(histogram);
    __syncthreads();
    Composite(items, histogram);
  }
  template <class Count>
  void Composite(T (&items)[kItems], Count (&histogram)[kBins]) {
    for (int i = 0; i < kItems; ++i) atomicAdd(histogram + items[i], Count(1));
    __syncthreads();
  }
};

}  // namespace cub
