// Keys of a block's threads, sorted by a comparison, with values that go along.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "cub/util_type.cuh"

namespace cub {

template <class K, int kX, int kItems, class V = NullType, int kY = 1, int kZ = 1>
class BlockMergeSort {
  static constexpr int kAll = kX * kY * kZ * kItems;

 public:
  struct TempStorage {
    host_cuda::Room<K, kAll> keys;
    host_cuda::Room<V, kAll> values;
  };
  BlockMergeSort() : memory_(host_cuda::own_storage<TempStorage>()) {}
  explicit BlockMergeSort(TempStorage& storage) : memory_(storage) {}

#define HOST_CUDA_MERGE_SORTS(name)                                          \
  template <class Less>                                                      \
  void name(K(&keys)[kItems], Less less) {                                   \
    V none[kItems];                                                          \
    sort(keys, none, less, kAll);                                            \
  }                                                                          \
  template <class Less>                                                      \
  void name(K(&keys)[kItems], V(&values)[kItems], Less less) {               \
    sort(keys, values, less, kAll);                                          \
  }                                                                          \
  template <class Less>                                                      \
  void name(K(&keys)[kItems], V(&values)[kItems], Less less, int valid, K) { \
    sort(keys, values, less, valid);                                         \
  }
  HOST_CUDA_MERGE_SORTS(Sort)
  HOST_CUDA_MERGE_SORTS(StableSort)
#undef HOST_CUDA_MERGE_SORTS

 private:
  template <class Less>
  void sort(K (&keys)[kItems], V (&values)[kItems], Less less, int valid) {
    const host_cuda::Ours ours(host_cuda::worker->watch);
    const int rank = static_cast<int>(host_cuda::block_rank());
    K* const all = memory_.keys.data();
    V* const others = memory_.values.data();
    for (int i = 0; i < kItems; ++i) {
      new (all + rank * kItems + i) K(keys[i]);
      new (others + rank * kItems + i) V(values[i]);
    }
    __syncthreads();
    if (rank == 0) {
      std::vector<int> order(static_cast<size_t>(valid));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return less(all[a], all[b]); });
      const std::vector<K> k(all, all + valid);
      const std::vector<V> v(others, others + valid);
      for (int i = 0; i < valid; ++i) {
        all[i] = k[static_cast<size_t>(order[static_cast<size_t>(i)])];
        others[i] = v[static_cast<size_t>(order[static_cast<size_t>(i)])];
      }
    }
    __syncthreads();
    for (int i = 0; i < kItems; ++i) {
      keys[i] = all[rank * kItems + i];
      values[i] = others[rank * kItems + i];
    }
  }

  TempStorage& memory_;
};

}  // namespace cub
