// CUB's iterators over what is not in memory.
#pragma once

#include "cub/util_type.cuh"
#include "host_cuda/thrust/iterators.h"

namespace cub {

template <class T, class = std::ptrdiff_t>
struct CountingInputIterator : thrust::counting_iterator<T> {
  using thrust::counting_iterator<T>::counting_iterator;
};
template <class T, class = std::ptrdiff_t>
struct ConstantInputIterator : thrust::constant_iterator<T> {
  using thrust::constant_iterator<T>::constant_iterator;
};

// What a function makes of each element; a place and its element; elements as they are.
template <class T, class Call, class In, class = std::ptrdiff_t>
struct TransformInputIterator : thrust::host_cuda_detail::Placed<TransformInputIterator<T, Call, In>, T, T> {
  In in{};
  Call call{};
  TransformInputIterator() = default;
  TransformInputIterator(In from, Call f) : in(from), call(f) {}
  T at(std::ptrdiff_t i) const {
    Call mine(call);
    return mine(in[i]);
  }
};
template <class In, class = std::ptrdiff_t, class T = std::remove_cv_t<typename std::iterator_traits<In>::value_type>>
struct ArgIndexInputIterator
    : thrust::host_cuda_detail::Placed<
          ArgIndexInputIterator<In>, KeyValuePair<std::ptrdiff_t, T>, KeyValuePair<std::ptrdiff_t, T>> {
  In in{};
  ArgIndexInputIterator() = default;
  explicit ArgIndexInputIterator(In from, std::ptrdiff_t offset = 0) : in(from) {
    this->place = offset;
  }
  KeyValuePair<std::ptrdiff_t, T> at(std::ptrdiff_t i) const {
    return {i, in[i]};
  }
};
template <int, class T, class = std::ptrdiff_t>
struct CacheModifiedInputIterator : thrust::host_cuda_detail::Placed<CacheModifiedInputIterator<0, T>, T, T> {
  const T* in = nullptr;
  CacheModifiedInputIterator() = default;
  explicit CacheModifiedInputIterator(const T* from) : in(from) {}
  T at(std::ptrdiff_t i) const {
    return in[i];
  }
};
template <class = std::ptrdiff_t>
struct DiscardOutputIterator : decltype(thrust::make_discard_iterator()){};

}  // namespace cub
