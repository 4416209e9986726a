// Keys in the order of a radix sort: by some of their bits, those of equal ones left in their order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <vector>

#include "host_cuda/atomics.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

// Bits that are in the order of the numbers: of negative floating-point numbers all are turned, and zeros are equal.
template <class K>
uint64_t radix_bits(const K& key) {
  using W = typename Word<sizeof(K)>::type;
  constexpr W sign = static_cast<W>(W{1} << (sizeof(K) * 8 - 1));
  W bits;
  std::memcpy(&bits, &key, sizeof bits);
  if constexpr (std::is_integral_v<K>) return std::is_signed_v<K> ? static_cast<W>(bits ^ sign) : bits;
  if (bits == sign) bits = 0;
  return bits & sign ? static_cast<W>(~bits) : static_cast<W>(bits | sign);
}
// Where each place of the sorted keys comes from.
template <class K>
std::vector<size_t> radix_order(const K* keys, size_t n, int begin, int end, bool descending) {
  std::vector<uint64_t> bits(n);
  const uint64_t mask = end - begin >= 64 ? ~uint64_t{0} : (uint64_t{1} << (end - begin)) - 1;
  for (size_t i = 0; i < n; ++i) bits[i] = radix_bits(keys[i]) >> begin & mask;
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  if (descending)
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bits[a] > bits[b]; });
  else
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bits[a] < bits[b]; });
  return order;
}
template <class T>
void arrange(const std::vector<T>& from, const std::vector<size_t>& order, T* to) {
  for (size_t i = 0; i < order.size(); ++i) to[i] = from[order[i]];
}

}  // namespace host_cuda
#pragma GCC visibility pop
