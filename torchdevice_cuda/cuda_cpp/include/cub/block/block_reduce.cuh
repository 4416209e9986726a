// What the threads of a block have, combined; thread 0 gets it.
#pragma once

#include "cub/thread/thread_operators.cuh"
#include "cub/util_type.cuh"
#include "host_cuda/orders.h"

namespace cub {

enum BlockReduceAlgorithm { BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS };

template <
    class T, int kX, BlockReduceAlgorithm kAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int kY = 1, int kZ = 1, int = 0>
class BlockReduce {
  static constexpr int kThreads = kX * kY * kZ;

 public:
  typedef host_cuda::Room<T, kThreads> TempStorage;

  BlockReduce() : values_(host_cuda::own_storage<TempStorage>().data()) {}
  explicit BlockReduce(TempStorage& storage) : values_(storage.data()) {}

  template <class Op>
  T Reduce(T input, Op op, int valid = kThreads) {
    const host_cuda::Ours ours(host_cuda::worker->watch);
    const unsigned rank = host_cuda::block_rank();
    new (values_ + rank) T(input);
    if (host_cuda::is_giving()) return input;
    __syncthreads();
    return rank == 0 ? host_cuda::block_total(values_, static_cast<size_t>(valid), op) : input;
  }
  template <int kItems, class Op>
  T Reduce(T (&inputs)[kItems], Op op) {
    T mine = inputs[0];
    for (int i = 1; i < kItems; ++i) mine = op(mine, inputs[i]);
    return Reduce(mine, op);
  }
  T Sum(T input) {
    return Reduce(input, cub::Sum());
  }
  T Sum(T input, int valid) {
    return Reduce(input, cub::Sum(), valid);
  }
  template <int kItems>
  T Sum(T (&inputs)[kItems]) {
    return Reduce(inputs, cub::Sum());
  }

 private:
  T* values_;
};

}  // namespace cub
