// Items of a thread, from memory and to it. However CUB moves them, a thread's items follow each other, but in stripes.
#pragma once

#include "cub/block/block_exchange.cuh"
#include "cub/util_ptx.cuh"
#include "cub/util_type.cuh"

namespace cub {

enum BlockLoadAlgorithm {
  BLOCK_LOAD_DIRECT,
  BLOCK_LOAD_STRIPED,
  BLOCK_LOAD_VECTORIZE,
  BLOCK_LOAD_TRANSPOSE,
  BLOCK_LOAD_WARP_TRANSPOSE,
  BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED
};

template <
    class T, int kX, int kItems, BlockLoadAlgorithm kAlgorithm = BLOCK_LOAD_DIRECT, int kY = 1, int kZ = 1, int = 0>
class BlockLoad {
 public:
  typedef NullType TempStorage;
  BlockLoad() = default;
  explicit BlockLoad(TempStorage&) {}

  template <class In>
  void Load(In from, T (&items)[kItems]) {
    for (int i = 0; i < kItems; ++i) items[i] = from[place(i)];
  }
  template <class In>
  void Load(In from, T (&items)[kItems], int valid) {
    for (int i = 0; i < kItems; ++i)
      if (place(i) < valid) items[i] = from[place(i)];
  }
  template <class In, class Default>
  void Load(In from, T (&items)[kItems], int valid, Default other) {
    for (int i = 0; i < kItems; ++i)
      items[i] = place(i) < valid ? static_cast<T>(from[place(i)]) : static_cast<T>(other);
  }

 private:
  static int place(int i) {
    const int rank = static_cast<int>(host_cuda::block_rank());
    return kAlgorithm == BLOCK_LOAD_STRIPED ? i * kX * kY * kZ + rank : rank * kItems + i;
  }
};

// The same for one algorithm, as functions: `thread` is the thread's place in the block.
#define HOST_CUDA_LOAD_DIRECT(name, type_parameters, place)      \
  template <type_parameters, class T, int kItems, class In>      \
  void name(int thread, In from, T(&items)[kItems]) {            \
    for (int i = 0; i < kItems; ++i) items[i] = from[place];     \
  }                                                              \
  template <type_parameters, class T, int kItems, class In>      \
  void name(int thread, In from, T(&items)[kItems], int valid) { \
    for (int i = 0; i < kItems; ++i)                             \
      if (place < valid) items[i] = from[place];                 \
  }
HOST_CUDA_LOAD_DIRECT(LoadDirectStriped, int kThreads, i* kThreads + thread)
#undef HOST_CUDA_LOAD_DIRECT
template <class T, int kItems, class In>
void LoadDirectBlocked(int thread, In from, T (&items)[kItems]) {
  for (int i = 0; i < kItems; ++i) items[i] = from[thread * kItems + i];
}
template <class T, int kItems, class In>
void LoadDirectBlocked(int thread, In from, T (&items)[kItems], int valid) {
  for (int i = 0; i < kItems; ++i)
    if (thread * kItems + i < valid) items[i] = from[thread * kItems + i];
}

}  // namespace cub
