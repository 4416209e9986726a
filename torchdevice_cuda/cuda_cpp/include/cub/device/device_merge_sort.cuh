#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "host_cuda/over_memory.h"

namespace cub {

// By a comparison, in place; equal keys keep their order in all of these.
struct DeviceMergeSort {
#define HOST_CUDA_SORTS(pairs, keys_only, copy)                                                               \
  template <class Keys, class Values, class N, class Less>                                                    \
  static cudaError_t pairs(                                                                                   \
      void* memory, size_t& bytes, Keys keys, Values values, N n, Less less, cudaStream_t stream = nullptr) { \
    return host_cuda::in_two_calls(memory, bytes, stream, "cub::DeviceMergeSort", [=] {                       \
      const auto order = sorted(keys, static_cast<size_t>(n), less);                                          \
      arrange(keys, order);                                                                                   \
      arrange(values, order);                                                                                 \
    });                                                                                                       \
  }                                                                                                           \
  template <class Keys, class N, class Less>                                                                  \
  static cudaError_t keys_only(                                                                               \
      void* memory, size_t& bytes, Keys keys, N n, Less less, cudaStream_t stream = nullptr) {                \
    return host_cuda::in_two_calls(memory, bytes, stream, "cub::DeviceMergeSort", [=] {                       \
      arrange(keys, sorted(keys, static_cast<size_t>(n), less));                                              \
    });                                                                                                       \
  }
  HOST_CUDA_SORTS(SortPairs, SortKeys, )
  HOST_CUDA_SORTS(StableSortPairs, StableSortKeys, )
#undef HOST_CUDA_SORTS

 private:
  template <class Keys, class Less>
  static std::vector<std::ptrdiff_t> sorted(Keys keys, size_t n, Less less) {
    std::vector<std::ptrdiff_t> order(n);
    std::iota(order.begin(), order.end(), std::ptrdiff_t{0});
    std::stable_sort(
        order.begin(), order.end(), [&](std::ptrdiff_t a, std::ptrdiff_t b) { return less(keys[a], keys[b]); });
    return order;
  }
  template <class It>
  static void arrange(It to, const std::vector<std::ptrdiff_t>& order) {
    const std::vector<host_cuda::ValueOf<It>> old(to, to + static_cast<std::ptrdiff_t>(order.size()));
    for (size_t i = 0; i < order.size(); ++i) to[static_cast<std::ptrdiff_t>(i)] = old[static_cast<size_t>(order[i])];
  }
};

}  // namespace cub
