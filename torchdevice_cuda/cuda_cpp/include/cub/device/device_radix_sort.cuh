#pragma once

#include "host_cuda/over_memory.h"
#include "host_cuda/radix.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

template <class K, class V>
void sort_memory(const K* keys, K* keys_out, const V* values, V* values_out, size_t n, int begin, int end, bool down) {
  const std::vector<K> all(keys, keys + n);
  const auto order = radix_order(all.data(), n, begin, end, down);
  if (values) {
    const std::vector<V> others(values, values + n);
    arrange(others, order, values_out);
  }
  arrange(all, order, keys_out);
}

}  // namespace host_cuda
#pragma GCC visibility pop

namespace cub {

struct DeviceRadixSort {
#define HOST_CUDA_SORTS(suffix, down)                                                                                 \
  template <class K, class V, class N>                                                                                \
  static cudaError_t SortPairs##suffix(                                                                               \
      void* memory, size_t& bytes, const K* keys, K* keys_out, const V* values, V* values_out, N n, int begin = 0,    \
      int end = sizeof(K) * 8, cudaStream_t stream = nullptr) {                                                       \
    return host_cuda::in_two_calls(memory, bytes, stream, "cub::DeviceRadixSort", [=] {                               \
      host_cuda::sort_memory(keys, keys_out, values, values_out, static_cast<size_t>(n), begin, end, down);           \
    });                                                                                                               \
  }                                                                                                                   \
  template <class K, class N>                                                                                         \
  static cudaError_t SortKeys##suffix(                                                                                \
      void* memory, size_t& bytes, const K* keys, K* keys_out, N n, int begin = 0, int end = sizeof(K) * 8,           \
      cudaStream_t stream = nullptr) {                                                                                \
    const char* const none = nullptr;                                                                                 \
    return host_cuda::in_two_calls(memory, bytes, stream, "cub::DeviceRadixSort", [=] {                               \
      host_cuda::sort_memory(keys, keys_out, none, (char*)nullptr, static_cast<size_t>(n), begin, end, down);         \
    });                                                                                                               \
  }                                                                                                                   \
  template <class K, class V, class N>                                                                                \
  static cudaError_t SortPairs##suffix(                                                                               \
      void* memory, size_t& bytes, DoubleBuffer<K>& keys, DoubleBuffer<V>& values, N n, int begin = 0,                \
      int end = sizeof(K) * 8, cudaStream_t stream = nullptr) {                                                       \
    const auto said = SortPairs##suffix(                                                                              \
        memory, bytes, (const K*)keys.Current(), keys.Alternate(), (const V*)values.Current(), values.Alternate(), n, \
        begin, end, stream);                                                                                          \
    if (memory) keys.selector ^= 1, values.selector ^= 1;                                                             \
    return said;                                                                                                      \
  }                                                                                                                   \
  template <class K, class N>                                                                                         \
  static cudaError_t SortKeys##suffix(                                                                                \
      void* memory, size_t& bytes, DoubleBuffer<K>& keys, N n, int begin = 0, int end = sizeof(K) * 8,                \
      cudaStream_t stream = nullptr) {                                                                                \
    const auto said =                                                                                                 \
        SortKeys##suffix(memory, bytes, (const K*)keys.Current(), keys.Alternate(), n, begin, end, stream);           \
    if (memory) keys.selector ^= 1;                                                                                   \
    return said;                                                                                                      \
  }
  HOST_CUDA_SORTS(, false)
  HOST_CUDA_SORTS(Descending, true)
#undef HOST_CUDA_SORTS
};

}  // namespace cub
