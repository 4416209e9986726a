// Thrust's functions, pairs and tuples: the standard library's, and a few of its own.
#pragma once

#include <functional>
#include <tuple>
#include <utility>

namespace thrust {

template <class T = void>
using plus = std::plus<T>;
template <class T = void>
using minus = std::minus<T>;
template <class T = void>
using multiplies = std::multiplies<T>;
template <class T = void>
using divides = std::divides<T>;
template <class T = void>
using modulus = std::modulus<T>;
template <class T = void>
using negate = std::negate<T>;
template <class T = void>
using equal_to = std::equal_to<T>;
template <class T = void>
using not_equal_to = std::not_equal_to<T>;
template <class T = void>
using less = std::less<T>;
template <class T = void>
using less_equal = std::less_equal<T>;
template <class T = void>
using greater = std::greater<T>;
template <class T = void>
using greater_equal = std::greater_equal<T>;
template <class T = void>
using logical_and = std::logical_and<T>;
template <class T = void>
using logical_or = std::logical_or<T>;
template <class T = void>
using logical_not = std::logical_not<T>;
template <class T = void>
using bit_and = std::bit_and<T>;
template <class T = void>
using bit_or = std::bit_or<T>;
template <class T = void>
using bit_xor = std::bit_xor<T>;
template <class T = void>
struct maximum {
  T operator()(const T& a, const T& b) const {
    return a < b ? b : a;
  }
};
template <class T = void>
struct minimum {
  T operator()(const T& a, const T& b) const {
    return b < a ? b : a;
  }
};
template <>
struct maximum<void> {
  template <class T>
  T operator()(const T& a, const T& b) const {
    return a < b ? b : a;
  }
};
template <>
struct minimum<void> {
  template <class T>
  T operator()(const T& a, const T& b) const {
    return b < a ? b : a;
  }
};
template <class T = void>
struct identity {
  template <class U>
  const U& operator()(const U& v) const {
    return v;
  }
};
template <class T>
struct square {
  T operator()(const T& v) const {
    return v * v;
  }
};

using std::get;
using std::make_pair;
using std::make_tuple;
using std::pair;
using std::swap;
using std::tie;
using std::tuple;
using std::tuple_element;
using std::tuple_size;

}  // namespace thrust
