#pragma once

#include "cub/device/device_segmented_radix_sort.cuh"

namespace cub {

// Sorted by all bits; the radix sort keeps the order of equal keys, so all of these are stable.
struct DeviceSegmentedSort {
#define HOST_CUDA_SORTS(name, call)                                                                              \
  template <class K, class V, class N, class M, class Begins, class Ends>                                        \
  static cudaError_t name(                                                                                       \
      void* memory, size_t& bytes, const K* keys, K* keys_out, const V* values, V* values_out, N n, M segments,  \
      Begins begins, Ends ends, cudaStream_t stream = nullptr) {                                                 \
    return DeviceSegmentedRadixSort::call(                                                                       \
        memory, bytes, keys, keys_out, values, values_out, n, segments, begins, ends, 0, sizeof(K) * 8, stream); \
  }
#define HOST_CUDA_KEY_SORTS(name, call)                                                                   \
  template <class K, class N, class M, class Begins, class Ends>                                          \
  static cudaError_t name(                                                                                \
      void* memory, size_t& bytes, const K* keys, K* keys_out, N n, M segments, Begins begins, Ends ends, \
      cudaStream_t stream = nullptr) {                                                                    \
    return DeviceSegmentedRadixSort::call(                                                                \
        memory, bytes, keys, keys_out, n, segments, begins, ends, 0, sizeof(K) * 8, stream);              \
  }
  HOST_CUDA_SORTS(SortPairs, SortPairs)
  HOST_CUDA_SORTS(StableSortPairs, SortPairs)
  HOST_CUDA_SORTS(SortPairsDescending, SortPairsDescending)
  HOST_CUDA_SORTS(StableSortPairsDescending, SortPairsDescending)
  HOST_CUDA_KEY_SORTS(SortKeys, SortKeys)
  HOST_CUDA_KEY_SORTS(StableSortKeys, SortKeys)
  HOST_CUDA_KEY_SORTS(SortKeysDescending, SortKeysDescending)
  HOST_CUDA_KEY_SORTS(StableSortKeysDescending, SortKeysDescending)
#undef HOST_CUDA_SORTS
#undef HOST_CUDA_KEY_SORTS
};

}  // namespace cub
