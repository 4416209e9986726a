#pragma once

#include "cub/device/device_radix_sort.cuh"

namespace cub {

struct DeviceSegmentedRadixSort {
#define HOST_CUDA_SORTS(suffix, down)                                                                                  \
  template <class K, class V, class N, class M, class Begins, class Ends>                                              \
  static cudaError_t SortPairs##suffix(                                                                                \
      void* memory, size_t& bytes, const K* keys, K* keys_out, const V* values, V* values_out, N, M segments,          \
      Begins begins, Ends ends, int begin = 0, int end = sizeof(K) * 8, cudaStream_t stream = nullptr) {               \
    return host_cuda::in_two_calls(memory, bytes, stream, "cub::DeviceSegmentedRadixSort", [=] {                       \
      for (std::ptrdiff_t i = 0; i < host_cuda::place(segments); ++i) {                                                \
        const auto first = host_cuda::place(begins[i]), last = host_cuda::place(ends[i]);                              \
        if (last > first)                                                                                              \
          host_cuda::sort_memory(                                                                                      \
              keys + first, keys_out + first, values + first, values_out + first, static_cast<size_t>(last - first),   \
              begin, end, down);                                                                                       \
      }                                                                                                                \
    });                                                                                                                \
  }                                                                                                                    \
  template <class K, class N, class M, class Begins, class Ends>                                                       \
  static cudaError_t SortKeys##suffix(                                                                                 \
      void* memory, size_t& bytes, const K* keys, K* keys_out, N, M segments, Begins begins, Ends ends, int begin = 0, \
      int end = sizeof(K) * 8, cudaStream_t stream = nullptr) {                                                        \
    const char* const none = nullptr;                                                                                  \
    return host_cuda::in_two_calls(memory, bytes, stream, "cub::DeviceSegmentedRadixSort", [=] {                       \
      for (std::ptrdiff_t i = 0; i < host_cuda::place(segments); ++i) {                                                \
        const auto first = host_cuda::place(begins[i]), last = host_cuda::place(ends[i]);                              \
        if (last > first)                                                                                              \
          host_cuda::sort_memory(                                                                                      \
              keys + first, keys_out + first, none, (char*)nullptr, static_cast<size_t>(last - first), begin, end,     \
              down);                                                                                                   \
      }                                                                                                                \
    });                                                                                                                \
  }                                                                                                                    \
  template <class K, class V, class N, class M, class Begins, class Ends>                                              \
  static cudaError_t SortPairs##suffix(                                                                                \
      void* memory, size_t& bytes, DoubleBuffer<K>& keys, DoubleBuffer<V>& values, N n, M segments, Begins begins,     \
      Ends ends, int begin = 0, int end = sizeof(K) * 8, cudaStream_t stream = nullptr) {                              \
    const auto said = SortPairs##suffix(                                                                               \
        memory, bytes, (const K*)keys.Current(), keys.Alternate(), (const V*)values.Current(), values.Alternate(), n,  \
        segments, begins, ends, begin, end, stream);                                                                   \
    if (memory) keys.selector ^= 1, values.selector ^= 1;                                                              \
    return said;                                                                                                       \
  }                                                                                                                    \
  template <class K, class N, class M, class Begins, class Ends>                                                       \
  static cudaError_t SortKeys##suffix(                                                                                 \
      void* memory, size_t& bytes, DoubleBuffer<K>& keys, N n, M segments, Begins begins, Ends ends, int begin = 0,    \
      int end = sizeof(K) * 8, cudaStream_t stream = nullptr) {                                                        \
    const auto said = SortKeys##suffix(                                                                                \
        memory, bytes, (const K*)keys.Current(), keys.Alternate(), n, segments, begins, ends, begin, end, stream);     \
    if (memory) keys.selector ^= 1;                                                                                    \
    return said;                                                                                                       \
  }
  HOST_CUDA_SORTS(, false)
  HOST_CUDA_SORTS(Descending, true)
#undef HOST_CUDA_SORTS
};

}  // namespace cub
