// Loads, stores and atomic operations. Caches are the host's own.
#pragma once
#include <time.h>

#include "host_ptx/floats.h"
#include "host_ptx/integers.h"

namespace host_ptx {

template <class T>
struct aliased {
  typedef unsigned_of<T> __attribute__((may_alias)) type;
};

template <class T, int N, bool IS_ORDERED, class D>
HOST_PTX void load(const T* address, D* to) {
  typedef typename aliased<T>::type W;
  const W* from = (const W*)address;
  for (int i = 0; i < N; i++)
    to[i] = bits_as<T>((unsigned_of<T>)(IS_ORDERED ? __atomic_load_n(from + i, __ATOMIC_ACQUIRE) : from[i]));
}
template <class T, int N, bool IS_ORDERED>
HOST_PTX void store(T* address, const T* given) {
  typedef typename aliased<T>::type W;
  W* to = (W*)address;
  for (int i = 0; i < N; i++) {
    const auto bits = bits_as<unsigned_of<T>>(given[i]);
    if (IS_ORDERED)
      __atomic_store_n(to + i, bits, __ATOMIC_RELEASE);
    else
      to[i] = bits;
  }
}

// The old value; `change` makes the new one of it.
template <class T, class F>
HOST_PTX T change(T* address, F make) {
  typedef unsigned_of<T> W;
  typedef typename aliased<T>::type A;
  W seen = __atomic_load_n((A*)address, __ATOMIC_RELAXED), next;
  do {
    next = bits_as<W>((T)make(bits_as<T>(seen)));
  } while (!__atomic_compare_exchange_n((A*)address, &seen, next, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
  return bits_as<T>(seen);
}
// Of float in global memory, small numbers are zero.
template <class T, bool IS_GLOBAL>
HOST_PTX T change_add(T* address, T b) {
  return change(address, [b](T old) {
    if constexpr (is_integer<T>)
      return add_integers(old, b);
    else
      return add < T, RN, IS_GLOBAL && is_same<T, float>, false > (old, b);
  });
}
template <class T, bool IS_GLOBAL>
HOST_PTX T change_min(T* address, T b) {
  return change(address, [b](T old) {
    if constexpr (is_integer<T>)
      return min_integers<T, false>(old, b);
    else
      return min_float<T, false, false, false>(old, b);
  });
}
template <class T, bool IS_GLOBAL>
HOST_PTX T change_max(T* address, T b) {
  return change(address, [b](T old) {
    if constexpr (is_integer<T>)
      return max_integers<T, false>(old, b);
    else
      return max_float<T, false, false, false>(old, b);
  });
}
template <class T, bool IS_GLOBAL>
HOST_PTX T change_and(T* address, T b) {
  return change(address, [b](T old) { return (T)(old & b); });
}
template <class T, bool IS_GLOBAL>
HOST_PTX T change_or(T* address, T b) {
  return change(address, [b](T old) { return (T)(old | b); });
}
template <class T, bool IS_GLOBAL>
HOST_PTX T change_xor(T* address, T b) {
  return change(address, [b](T old) { return (T)(old ^ b); });
}
template <class T, bool IS_GLOBAL>
HOST_PTX T change_exch(T* address, T b) {
  return change(address, [b](T) { return b; });
}
template <class T, bool IS_GLOBAL>
HOST_PTX T change_inc(T* address, T b) {
  return change(address, [b](T old) { return old >= b ? (T)0 : (T)(old + 1); });
}
template <class T, bool IS_GLOBAL>
HOST_PTX T change_dec(T* address, T b) {
  return change(address, [b](T old) { return old == 0 || old > b ? b : (T)(old - 1); });
}
template <class T>
HOST_PTX T change_cas(T* address, T b, T c) {
  return change(address, [b, c](T old) { return old == b ? c : old; });
}
HOST_PTX void fence() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
// Nanoseconds.
HOST_PTX uint64_t clock() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

}  // namespace host_ptx
