// Items of a thread to memory, as cub::BlockLoad reads them.
#pragma once

#include "cub/block/block_exchange.cuh"
#include "cub/util_ptx.cuh"
#include "cub/util_type.cuh"

namespace cub {

enum BlockStoreAlgorithm {
  BLOCK_STORE_DIRECT,
  BLOCK_STORE_STRIPED,
  BLOCK_STORE_VECTORIZE,
  BLOCK_STORE_TRANSPOSE,
  BLOCK_STORE_WARP_TRANSPOSE,
  BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED
};

template <
    class T, int kX, int kItems, BlockStoreAlgorithm kAlgorithm = BLOCK_STORE_DIRECT, int kY = 1, int kZ = 1, int = 0>
class BlockStore {
 public:
  typedef NullType TempStorage;
  BlockStore() = default;
  explicit BlockStore(TempStorage&) {}

  template <class Out>
  void Store(Out to, T (&items)[kItems]) {
    for (int i = 0; i < kItems; ++i) to[place(i)] = items[i];
  }
  template <class Out>
  void Store(Out to, T (&items)[kItems], int valid) {
    for (int i = 0; i < kItems; ++i)
      if (place(i) < valid) to[place(i)] = items[i];
  }

 private:
  static int place(int i) {
    const int rank = static_cast<int>(host_cuda::block_rank());
    return kAlgorithm == BLOCK_STORE_STRIPED ? i * kX * kY * kZ + rank : rank * kItems + i;
  }
};

template <int kThreads, class T, int kItems, class Out>
void StoreDirectStriped(int thread, Out to, T (&items)[kItems]) {
  for (int i = 0; i < kItems; ++i) to[i * kThreads + thread] = items[i];
}
template <int kThreads, class T, int kItems, class Out>
void StoreDirectStriped(int thread, Out to, T (&items)[kItems], int valid) {
  for (int i = 0; i < kItems; ++i)
    if (i * kThreads + thread < valid) to[i * kThreads + thread] = items[i];
}
template <class T, int kItems, class Out>
void StoreDirectBlocked(int thread, Out to, T (&items)[kItems]) {
  for (int i = 0; i < kItems; ++i) to[thread * kItems + i] = items[i];
}
template <class T, int kItems, class Out>
void StoreDirectBlocked(int thread, Out to, T (&items)[kItems], int valid) {
  for (int i = 0; i < kItems; ++i)
    if (thread * kItems + i < valid) to[thread * kItems + i] = items[i];
}

}  // namespace cub
