// A thread's value to another thread of the block.
#pragma once

#include "cub/util_type.cuh"

namespace cub {

template <class T, int kX, int kY = 1, int kZ = 1, int = 0>
class BlockShuffle {
  static constexpr int kThreads = kX * kY * kZ;

 public:
  typedef host_cuda::Room<T, kThreads> TempStorage;
  BlockShuffle() : values_(host_cuda::own_storage<TempStorage>().data()) {}
  explicit BlockShuffle(TempStorage& storage) : values_(storage.data()) {}

  void Offset(T input, T& output, int distance = 1) {
    const int from = share(input) + distance;
    if (from >= 0 && from < kThreads) output = values_[from];
  }
  void Rotate(T input, T& output, unsigned distance = 1) {
    output = values_[(static_cast<unsigned>(share(input)) + distance) % kThreads];
  }

 private:
  int share(const T& input) {
    const host_cuda::Ours ours(host_cuda::worker->watch);
    const int rank = static_cast<int>(host_cuda::block_rank());
    new (values_ + rank) T(input);
    __syncthreads();
    return rank;
  }

  T* values_;
};

}  // namespace cub
