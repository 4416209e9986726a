// Keys of a block's threads, sorted, with values that go along.
#pragma once

#include "cub/util_type.cuh"
#include "host_cuda/radix.h"

namespace cub {

template <
    class K, int kX, int kItems, class V = NullType, int = 4, bool = true, int = 0, int = 0, int kY = 1, int kZ = 1>
class BlockRadixSort {
  static constexpr int kThreads = kX * kY * kZ, kAll = kThreads * kItems, kBits = sizeof(K) * 8;

 public:
  struct TempStorage {
    host_cuda::Room<K, kAll> keys;
    host_cuda::Room<V, kAll> values;
  };

  BlockRadixSort() : memory_(host_cuda::own_storage<TempStorage>()) {}
  explicit BlockRadixSort(TempStorage& storage) : memory_(storage) {}

  void Sort(K (&keys)[kItems], int begin = 0, int end = kBits) {
    NullType none[kItems];
    sort(keys, none, begin, end, false, false);
  }
  template <class W>
  void Sort(K (&keys)[kItems], W (&values)[kItems], int begin = 0, int end = kBits) {
    sort(keys, values, begin, end, false, false);
  }
  void SortDescending(K (&keys)[kItems], int begin = 0, int end = kBits) {
    NullType none[kItems];
    sort(keys, none, begin, end, true, false);
  }
  template <class W>
  void SortDescending(K (&keys)[kItems], W (&values)[kItems], int begin = 0, int end = kBits) {
    sort(keys, values, begin, end, true, false);
  }
  template <class W>
  void SortBlockedToStriped(K (&keys)[kItems], W (&values)[kItems], int begin = 0, int end = kBits) {
    sort(keys, values, begin, end, false, true);
  }

 private:
  template <class W>
  void sort(K (&keys)[kItems], W (&values)[kItems], int begin, int end, bool descending, bool striped) {
    const host_cuda::Ours ours(host_cuda::worker->watch);
    const int rank = static_cast<int>(host_cuda::block_rank());
    K* const all = memory_.keys.data();
    auto* const others = reinterpret_cast<W*>(memory_.values.data());
    for (int i = 0; i < kItems; ++i) {
      all[rank * kItems + i] = keys[i];
      others[rank * kItems + i] = values[i];
    }
    __syncthreads();
    if (rank == 0) {
      const auto order = host_cuda::radix_order(all, kAll, begin, end, descending);
      host_cuda::arrange(std::vector<K>(all, all + kAll), order, all);
      host_cuda::arrange(std::vector<W>(others, others + kAll), order, others);
    }
    __syncthreads();
    for (int i = 0; i < kItems; ++i) {
      const int place = striped ? i * kThreads + rank : rank * kItems + i;
      keys[i] = all[place];
      values[i] = others[place];
    }
  }

  TempStorage& memory_;
};

}  // namespace cub
