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

struct Difference {
  template <class A, class B>
  auto operator()(const A& a, const B& b) const {
    return a - b;
  }
};
struct Division {
  template <class A, class B>
  auto operator()(const A& a, const B& b) const {
    return a / b;
  }
};
// Of pairs of a place and a value; of equal values the first.
struct ArgMax {
  template <class Pair>
  Pair operator()(const Pair& a, const Pair& b) const {
    return b.value > a.value || (a.value == b.value && b.key < a.key) ? b : a;
  }
};
struct ArgMin {
  template <class Pair>
  Pair operator()(const Pair& a, const Pair& b) const {
    return b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a;
  }
};
template <class T>
struct CastOp {
  template <class A>
  T operator()(const A& a) const {
    return static_cast<T>(a);
  }
};
template <class Op>
struct InequalityWrapper {
  Op op;
  explicit InequalityWrapper(Op o) : op(o) {}
  template <class A, class B>
  bool operator()(const A& a, const B& b) {
    return !op(a, b);
  }
};

}  // namespace cub
