// In which order CUB combines the values of threads: floating-point sums come out as on a GPU.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "cuda_runtime.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

// The shuffles of a warp, lane by lane: what lane 0 has when each has taken from 1, 2, 4, ... lanes further.
template <class T, class Op>
T warp_total(std::vector<T> lanes, Op op) {
  for (size_t step = 1; step < lanes.size(); step *= 2)
    for (size_t i = 0; i + step < lanes.size(); ++i) lanes[i] = op(lanes[i], lanes[i + step]);
  return lanes[0];
}
template <class T, class Op>
T block_total(const T* values, size_t n, Op op) {
  const auto warp = [&](size_t at) {
    return warp_total(std::vector<T>(values + at, values + std::min(n, at + 32)), op);
  };
  T total = warp(0);
  for (size_t at = 32; at < n; at += 32) total = op(total, warp(at));
  return total;
}
// Up to each lane, itself included.
template <class T, class Op>
std::vector<T> warp_sums(std::vector<T> lanes, Op op) {
  for (size_t step = 1; step < lanes.size(); step *= 2)
    for (size_t i = lanes.size(); i-- > step;) lanes[i] = op(lanes[i - step], lanes[i]);
  return lanes;
}

// Up to each thread of a block, and of the whole block. Without the thread itself the first one's is anything.
template <class T>
struct BlockSums {
  std::vector<T> each;
  T total;
};
template <class T, class Op>
BlockSums<T> warp_by_warp(const T* values, size_t n, bool inclusive, Op op) {
  std::vector<T> made;
  std::unique_ptr<T> before;
  for (size_t at = 0; at < n; at += 32) {
    const auto sums = warp_sums(std::vector<T>(values + at, values + std::min(n, at + 32)), op);
    for (size_t i = 0; i < sums.size(); ++i) {
      if (inclusive)
        made.push_back(before ? op(*before, sums[i]) : sums[i]);
      else if (i == 0)
        made.push_back(before ? *before : values[0]);
      else
        made.push_back(before ? op(*before, sums[i - 1]) : sums[i - 1]);
    }
    before = std::make_unique<T>(before ? op(*before, sums.back()) : sums.back());
  }
  return {std::move(made), *before};
}
// One warp rakes: each of its lanes adds up a stretch of the block, the warp scans the stretches, and each goes over
// its own again.
template <class T, class Op>
BlockSums<T> raked(const T* values, size_t n, bool inclusive, Op op) {
  const size_t stretch = (n + 31) / 32;
  if (stretch == 1) return warp_by_warp(values, n, inclusive, op);
  std::vector<T> totals;
  for (size_t at = 0; at < n; at += stretch) {
    T total = values[at];
    for (size_t i = at + 1; i < std::min(n, at + stretch); ++i) total = op(total, values[i]);
    totals.push_back(total);
  }
  const auto sums = warp_sums(totals, op);
  std::vector<T> made;
  for (size_t at = 0; at < n; at += stretch) {
    std::unique_ptr<T> before = at ? std::make_unique<T>(sums[at / stretch - 1]) : nullptr;
    for (size_t i = at; i < std::min(n, at + stretch); ++i) {
      if (!inclusive) made.push_back(before ? *before : values[0]);
      before = std::make_unique<T>(before ? op(*before, values[i]) : values[i]);
      if (inclusive) made.push_back(*before);
    }
  }
  return {std::move(made), sums.back()};
}

// Over a device's memory: halves of halves, so that an error does not grow with the number.
template <class T, class In, class Op>
T folded_range(In in, size_t n, Op op) {
  if (n <= 64) {
    T total = static_cast<T>(in[0]);
    for (size_t i = 1; i < n; ++i)
      total = static_cast<T>(op(total, static_cast<T>(in[static_cast<std::ptrdiff_t>(i)])));
    return total;
  }
  const size_t half = n / 2;
  return static_cast<T>(
      op(folded_range<T>(in, half, op), folded_range<T>(in + static_cast<std::ptrdiff_t>(half), n - half, op)));
}

}  // namespace host_cuda
#pragma GCC visibility pop
