// CUB's functions of two values.
#pragma once

namespace cub {

struct Equality {
  template <class A, class B>
  bool operator()(const A& a, const B& b) const {
    return a == b;
  }
};
struct Inequality {
  template <class A, class B>
  bool operator()(const A& a, const B& b) const {
    return a != b;
  }
};
struct Sum {
  template <class A, class B>
  auto operator()(const A& a, const B& b) const {
    return a + b;
  }
};
struct Max {
  template <class T>
  T operator()(const T& a, const T& b) const {
    return b > a ? b : a;
  }
};
struct Min {
  template <class T>
  T operator()(const T& a, const T& b) const {
    return b < a ? b : a;
  }
};

}  // namespace cub
