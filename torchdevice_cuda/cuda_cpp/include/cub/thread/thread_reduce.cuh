// One thread's items, in their order.
#pragma once

#include "cub/thread/thread_operators.cuh"
#include "cub/util_type.cuh"

namespace cub {

template <int kItems, class T, class Op>
T ThreadReduce(const T (&items)[kItems], Op op) {
  T made = items[0];
  for (int i = 1; i < kItems; ++i) made = op(made, items[i]);
  return made;
}
template <int kItems, class T, class Op>
T ThreadReduce(const T (&items)[kItems], Op op, T prefix) {
  for (int i = 0; i < kItems; ++i) prefix = op(prefix, items[i]);
  return prefix;
}
template <int kItems, class T, class Op>
T ThreadScanInclusive(const T (&in)[kItems], T (&out)[kItems], Op op) {
  T made = in[0];
  out[0] = made;
  for (int i = 1; i < kItems; ++i) out[i] = made = op(made, in[i]);
  return made;
}
template <int kItems, class T, class Op>
T ThreadScanInclusive(const T (&in)[kItems], T (&out)[kItems], Op op, T prefix, bool apply = true) {
  T made = apply ? op(prefix, in[0]) : in[0];
  out[0] = made;
  for (int i = 1; i < kItems; ++i) out[i] = made = op(made, in[i]);
  return made;
}
template <int kItems, class T, class Op>
T ThreadScanExclusive(const T (&in)[kItems], T (&out)[kItems], Op op, T prefix, bool apply = true) {
  T made = apply ? op(prefix, in[0]) : in[0];
  out[0] = prefix;
  for (int i = 1; i < kItems; ++i) {
    const T next = op(made, in[i]);
    out[i] = made;
    made = next;
  }
  return made;
}

namespace internal {
using cub::ThreadReduce;
using cub::ThreadScanExclusive;
using cub::ThreadScanInclusive;
}  // namespace internal

}  // namespace cub
