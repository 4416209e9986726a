// Comparisons.
#pragma once
#include "host_ptx/formats.h"

namespace host_ptx {

// Comparisons of numbers: with NaN they are false, or true for those that end with u.
#define HOST_PTX_COMPARE(name, ordered, with_nan) \
  struct Compare_##name {                         \
    static constexpr bool unordered = with_nan;   \
    template <class T>                            \
    bool operator()(T a, T b) const {             \
      return ordered;                             \
    }                                             \
  };
HOST_PTX_COMPARE(eq, a == b, false)
HOST_PTX_COMPARE(ne, a != b, false)
HOST_PTX_COMPARE(lt, a < b, false)
HOST_PTX_COMPARE(le, a <= b, false)
HOST_PTX_COMPARE(gt, a > b, false)
HOST_PTX_COMPARE(ge, a >= b, false)
HOST_PTX_COMPARE(lo, a < b, false)
HOST_PTX_COMPARE(ls, a <= b, false)
HOST_PTX_COMPARE(hi, a > b, false)
HOST_PTX_COMPARE(hs, a >= b, false)
HOST_PTX_COMPARE(equ, a == b, true)
HOST_PTX_COMPARE(neu, a != b, true)
HOST_PTX_COMPARE(ltu, a < b, true)
HOST_PTX_COMPARE(leu, a <= b, true)
HOST_PTX_COMPARE(gtu, a > b, true)
HOST_PTX_COMPARE(geu, a >= b, true)
HOST_PTX_COMPARE(num, true, false)
HOST_PTX_COMPARE(nan, false, true)
#undef HOST_PTX_COMPARE

template <class T, bool FTZ, class C>
HOST_PTX bool compare(C how, T a, T b) {
  if constexpr (is_integer<T>) {
    return how(a, b);
  } else {
    const double x = decode(flush_if<FTZ>(a)), y = decode(flush_if<FTZ>(b));
    return is_nan(x) || is_nan(y) ? C::unordered : how(x, y);
  }
}
template <bool FTZ, class C, class T>
HOST_PTX bool compare_low(C how, pair<T> a, pair<T> b) {
  return compare<T, FTZ>(how, a.lo, b.lo);
}
template <bool FTZ, class C, class T>
HOST_PTX bool compare_high(C how, pair<T> a, pair<T> b) {
  return compare<T, FTZ>(how, a.hi, b.hi);
}
HOST_PTX bool join_and(bool a, bool b) {
  return a && b;
}
HOST_PTX bool join_or(bool a, bool b) {
  return a || b;
}
HOST_PTX bool join_xor(bool a, bool b) {
  return a != b;
}
// The result of set: one, or all bits of an integer.
template <class T>
HOST_PTX T tell(bool is_true) {
  if constexpr (is_integer<T>)
    return is_true ? (T)-1 : (T)0;
  else
    return encode<T>(is_true ? 1 : 0, RN);
}
template <class T>
HOST_PTX T tell_both(bool low, bool high) {
  return T{tell<typename T::element>(low), tell<typename T::element>(high)};
}

}  // namespace host_ptx
