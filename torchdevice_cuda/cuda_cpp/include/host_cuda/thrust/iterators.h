// Iterators over what is not in memory.
#pragma once

#include <cstddef>
#include <iterator>
#include <tuple>
#include <type_traits>

#include "host_cuda/thrust/functional.h"

namespace thrust {

#pragma GCC visibility push(hidden)
namespace host_cuda_detail {

// What iterators have that go by a place: `Self` says what is there (`at`), and how far apart two begin if they begin
// at other iterators (`begins_after`).
template <class Self, class Value, class Reference>
struct Placed {
  using iterator_category = std::random_access_iterator_tag;
  using value_type = Value;
  using difference_type = std::ptrdiff_t;
  using pointer = void;
  using reference = Reference;

  std::ptrdiff_t place = 0;

  Reference operator*() const {
    return self().at(place);
  }
  Reference operator[](std::ptrdiff_t i) const {
    return self().at(place + i);
  }
  Self& operator+=(std::ptrdiff_t n) {
    place += n;
    return static_cast<Self&>(*this);
  }
  Self& operator-=(std::ptrdiff_t n) {
    return *this += -n;
  }
  Self& operator++() {
    return *this += 1;
  }
  Self& operator--() {
    return *this += -1;
  }
  Self operator++(int) {
    const Self old = self();
    ++place;
    return old;
  }
  Self operator--(int) {
    const Self old = self();
    --place;
    return old;
  }
  Self operator+(std::ptrdiff_t n) const {
    Self made = self();
    made.place += n;
    return made;
  }
  Self operator-(std::ptrdiff_t n) const {
    return *this + -n;
  }
  std::ptrdiff_t operator-(const Placed& other) const {
    return place - other.place + self().begins_after(other.self());
  }
  std::ptrdiff_t begins_after(const Self&) const {
    return 0;
  }
  bool operator==(const Placed& other) const {
    return *this - other == 0;
  }
  bool operator!=(const Placed& other) const {
    return *this - other != 0;
  }
  bool operator<(const Placed& other) const {
    return *this - other < 0;
  }
  bool operator>(const Placed& other) const {
    return *this - other > 0;
  }
  bool operator<=(const Placed& other) const {
    return *this - other <= 0;
  }
  bool operator>=(const Placed& other) const {
    return *this - other >= 0;
  }

 private:
  const Self& self() const {
    return static_cast<const Self&>(*this);
  }
};
template <class It>
using ReferenceOf = decltype(std::declval<const It&>()[std::ptrdiff_t{0}]);
template <class It>
using ValueOf = std::remove_cv_t<typename std::iterator_traits<It>::value_type>;

}  // namespace host_cuda_detail
#pragma GCC visibility pop

// The place is the number itself.
template <class T, class = void, class = void, class = void>
struct counting_iterator : host_cuda_detail::Placed<counting_iterator<T>, T, T> {
  counting_iterator() = default;
  explicit counting_iterator(T first) {
    this->place = static_cast<std::ptrdiff_t>(first);
  }
  T at(std::ptrdiff_t i) const {
    return static_cast<T>(i);
  }
};
template <class T>
counting_iterator<T> make_counting_iterator(T first) {
  return counting_iterator<T>(first);
}

template <class T, class = void, class = void>
struct constant_iterator : host_cuda_detail::Placed<constant_iterator<T>, T, T> {
  T value;
  constant_iterator(const T& v, std::ptrdiff_t place = 0) : value(v) {
    this->place = place;
  }
  T at(std::ptrdiff_t) const {
    return value;
  }
};
template <class T>
constant_iterator<T> make_constant_iterator(const T& value, std::ptrdiff_t place = 0) {
  return {value, place};
}

struct discard_iterator_reference {
  template <class T>
  const discard_iterator_reference& operator=(const T&) const {
    return *this;
  }
};
struct discard_iterator : host_cuda_detail::Placed<discard_iterator, int, discard_iterator_reference> {
  discard_iterator_reference at(std::ptrdiff_t) const {
    return {};
  }
};
inline discard_iterator make_discard_iterator() {
  return {};
}

template <class F, class It>
using transformed = std::invoke_result_t<const F&, host_cuda_detail::ReferenceOf<It>>;
template <class F, class It, class = void, class = void>
struct transform_iterator
    : host_cuda_detail::Placed<transform_iterator<F, It>, std::decay_t<transformed<F, It>>, transformed<F, It>> {
  It base;
  F function;
  transform_iterator(It b, F f) : base(b), function(f) {}
  decltype(auto) at(std::ptrdiff_t i) const {
    return function(base[i]);
  }
  std::ptrdiff_t begins_after(const transform_iterator& other) const {
    return base - other.base;
  }
};
template <class F, class It>
transform_iterator<F, It> make_transform_iterator(It base, F function) {
  return {base, function};
}

template <class It, class Index>
struct permutation_iterator
    : host_cuda_detail::Placed<
          permutation_iterator<It, Index>, host_cuda_detail::ValueOf<It>, host_cuda_detail::ReferenceOf<It>> {
  It base;
  Index index;
  permutation_iterator(It b, Index i) : base(b), index(i) {}
  decltype(auto) at(std::ptrdiff_t i) const {
    return base[static_cast<std::ptrdiff_t>(index[i])];
  }
  std::ptrdiff_t begins_after(const permutation_iterator& other) const {
    return index - other.index;
  }
};
template <class It, class Index>
permutation_iterator<It, Index> make_permutation_iterator(It base, Index index) {
  return {base, index};
}

template <class Tuple>
struct zip_iterator;
template <class... It>
struct zip_iterator<std::tuple<It...>>
    : host_cuda_detail::Placed<
          zip_iterator<std::tuple<It...>>, std::tuple<host_cuda_detail::ValueOf<It>...>,
          std::tuple<host_cuda_detail::ReferenceOf<It>...>> {
  std::tuple<It...> bases;
  zip_iterator(const std::tuple<It...>& b) : bases(b) {}
  std::tuple<host_cuda_detail::ReferenceOf<It>...> at(std::ptrdiff_t i) const {
    return std::apply(
        [i](const auto&... b) { return std::tuple<host_cuda_detail::ReferenceOf<It>...>(b[i]...); }, bases);
  }
  std::ptrdiff_t begins_after(const zip_iterator& other) const {
    return std::get<0>(bases) - std::get<0>(other.bases);
  }
};
template <class... It>
zip_iterator<std::tuple<It...>> make_zip_iterator(const std::tuple<It...>& bases) {
  return {bases};
}
template <class... It>
zip_iterator<std::tuple<It...>> make_zip_iterator(It... bases) {
  return {std::make_tuple(bases...)};
}

}  // namespace thrust
