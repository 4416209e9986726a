// Thrust's algorithms by the names that programs call, with a policy before the arguments or without.
#pragma once

#include "host_cuda/thrust/combining.h"
#include "host_cuda/thrust/elementwise.h"

namespace thrust {

using std::advance;
using std::distance;

#define HOST_CUDA_ALGORITHM(name)                                                             \
  template <class First, class... Rest>                                                       \
  auto name(First&& first, Rest&&... rest) {                                                  \
    host_cuda_detail::begin();                                                                \
    if constexpr (host_cuda_detail::is_policy<First>)                                         \
      return host_cuda_detail::name(std::forward<Rest>(rest)...);                             \
    else                                                                                      \
      return host_cuda_detail::name(std::forward<First>(first), std::forward<Rest>(rest)...); \
  }
HOST_CUDA_ALGORITHM(adjacent_difference)
HOST_CUDA_ALGORITHM(all_of)
HOST_CUDA_ALGORITHM(any_of)
HOST_CUDA_ALGORITHM(binary_search)
HOST_CUDA_ALGORITHM(copy)
HOST_CUDA_ALGORITHM(copy_if)
HOST_CUDA_ALGORITHM(copy_n)
HOST_CUDA_ALGORITHM(count)
HOST_CUDA_ALGORITHM(count_if)
HOST_CUDA_ALGORITHM(equal)
HOST_CUDA_ALGORITHM(exclusive_scan)
HOST_CUDA_ALGORITHM(exclusive_scan_by_key)
HOST_CUDA_ALGORITHM(fill)
HOST_CUDA_ALGORITHM(fill_n)
HOST_CUDA_ALGORITHM(find)
HOST_CUDA_ALGORITHM(find_if)
HOST_CUDA_ALGORITHM(for_each)
HOST_CUDA_ALGORITHM(for_each_n)
HOST_CUDA_ALGORITHM(gather)
HOST_CUDA_ALGORITHM(generate)
HOST_CUDA_ALGORITHM(inclusive_scan)
HOST_CUDA_ALGORITHM(inclusive_scan_by_key)
HOST_CUDA_ALGORITHM(inner_product)
HOST_CUDA_ALGORITHM(is_sorted)
HOST_CUDA_ALGORITHM(lower_bound)
HOST_CUDA_ALGORITHM(max_element)
HOST_CUDA_ALGORITHM(merge)
HOST_CUDA_ALGORITHM(min_element)
HOST_CUDA_ALGORITHM(minmax_element)
HOST_CUDA_ALGORITHM(none_of)
HOST_CUDA_ALGORITHM(partition)
HOST_CUDA_ALGORITHM(reduce)
HOST_CUDA_ALGORITHM(reduce_by_key)
HOST_CUDA_ALGORITHM(remove)
HOST_CUDA_ALGORITHM(remove_copy_if)
HOST_CUDA_ALGORITHM(remove_if)
HOST_CUDA_ALGORITHM(replace)
HOST_CUDA_ALGORITHM(replace_if)
HOST_CUDA_ALGORITHM(reverse)
HOST_CUDA_ALGORITHM(scatter)
HOST_CUDA_ALGORITHM(scatter_if)
HOST_CUDA_ALGORITHM(sequence)
HOST_CUDA_ALGORITHM(sort)
HOST_CUDA_ALGORITHM(sort_by_key)
HOST_CUDA_ALGORITHM(stable_partition)
HOST_CUDA_ALGORITHM(stable_sort)
HOST_CUDA_ALGORITHM(stable_sort_by_key)
HOST_CUDA_ALGORITHM(tabulate)
HOST_CUDA_ALGORITHM(transform)
HOST_CUDA_ALGORITHM(transform_exclusive_scan)
HOST_CUDA_ALGORITHM(transform_if)
HOST_CUDA_ALGORITHM(transform_inclusive_scan)
HOST_CUDA_ALGORITHM(transform_reduce)
HOST_CUDA_ALGORITHM(uninitialized_fill)
HOST_CUDA_ALGORITHM(unique)
HOST_CUDA_ALGORITHM(unique_by_key)
HOST_CUDA_ALGORITHM(unique_by_key_copy)
HOST_CUDA_ALGORITHM(unique_copy)
HOST_CUDA_ALGORITHM(upper_bound)
#undef HOST_CUDA_ALGORITHM

}  // namespace thrust
