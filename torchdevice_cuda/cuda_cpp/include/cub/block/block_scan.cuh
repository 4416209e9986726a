// What the threads of a block have, combined up to each.
#pragma once

#include "cub/thread/thread_operators.cuh"
#include "cub/util_type.cuh"
#include "host_cuda/orders.h"

namespace cub {

enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

template <class T, int kX, BlockScanAlgorithm kAlgorithm = BLOCK_SCAN_RAKING, int kY = 1, int kZ = 1, int = 0>
class BlockScan {
  static constexpr int kThreads = kX * kY * kZ;

 public:
  typedef host_cuda::Room<T, 2 * kThreads + 2> TempStorage;

  BlockScan() : values_(host_cuda::own_storage<TempStorage>().data()) {}
  explicit BlockScan(TempStorage& storage) : values_(storage.data()) {}

  template <class Op>
  void InclusiveScan(T input, T& output, Op op, T& aggregate) {
    scan(input, op, true);
    output = values_[kThreads + rank()];
    aggregate = values_[2 * kThreads];
  }
  template <class Op>
  void InclusiveScan(T input, T& output, Op op) {
    T aggregate;
    InclusiveScan(input, output, op, aggregate);
  }
  template <class Op>
  void ExclusiveScan(T input, T& output, T initial, Op op, T& aggregate) {
    scan(input, op, false);
    output = rank() ? op(initial, values_[kThreads + rank()]) : initial;
    aggregate = values_[2 * kThreads];
  }
  template <class Op>
  void ExclusiveScan(T input, T& output, T initial, Op op) {
    T aggregate;
    ExclusiveScan(input, output, initial, op, aggregate);
  }
  // Without an initial value thread 0's result is not defined.
  template <class Op>
  void ExclusiveScan(T input, T& output, Op op) {
    scan(input, op, false);
    output = values_[kThreads + rank()];
  }
  template <int kItems, class Op>
  void InclusiveScan(T (&inputs)[kItems], T (&outputs)[kItems], Op op) {
    T aggregate;
    InclusiveScan(inputs, outputs, op, aggregate);
  }
  template <int kItems, class Op>
  void InclusiveScan(T (&inputs)[kItems], T (&outputs)[kItems], Op op, T& aggregate) {
    T before = together(inputs, op);
    scan(before, op, false);
    before = values_[kThreads + rank()];
    aggregate = values_[2 * kThreads];
    T made = rank() ? op(before, inputs[0]) : inputs[0];
    for (int i = 0; i < kItems; ++i) {
      if (i) made = op(made, inputs[i]);
      outputs[i] = made;
    }
  }
  template <int kItems, class Op>
  void ExclusiveScan(T (&inputs)[kItems], T (&outputs)[kItems], T initial, Op op, T& aggregate) {
    T mine = together(inputs, op), made;
    ExclusiveScan(mine, made, initial, op, aggregate);
    for (int i = 0; i < kItems; ++i) {
      const T next = op(made, inputs[i]);
      outputs[i] = made;
      made = next;
    }
  }
  template <int kItems, class Op>
  void ExclusiveScan(T (&inputs)[kItems], T (&outputs)[kItems], T initial, Op op) {
    T aggregate;
    ExclusiveScan(inputs, outputs, initial, op, aggregate);
  }

  // What goes before the block's values: the first warp calls the function with the block's total, thread 0's result
  // counts.
  template <class Op, class Callback>
  void InclusiveScan(T input, T& output, Op op, Callback& callback) {
    T aggregate;
    InclusiveScan(input, output, op, aggregate);
    output = op(find_prefix(aggregate, callback), output);
  }
  template <int kItems, class Op, class Callback>
  void InclusiveScan(T (&inputs)[kItems], T (&outputs)[kItems], Op op, Callback& callback) {
    T aggregate, made;
    T mine = together(inputs, op);
    scan(mine, op, false);
    mine = values_[kThreads + rank()];
    aggregate = values_[2 * kThreads];
    const T prefix = find_prefix(aggregate, callback);
    made = rank() ? op(prefix, mine) : prefix;
    for (int i = 0; i < kItems; ++i) outputs[i] = made = op(made, inputs[i]);
  }
  template <class Op, class Callback>
  void ExclusiveScan(T input, T& output, Op op, Callback& callback) {
    scan(input, op, false);
    const T before = values_[kThreads + rank()], aggregate = values_[2 * kThreads];
    const T prefix = find_prefix(aggregate, callback);
    output = rank() ? op(prefix, before) : prefix;
  }
  template <int kItems, class Op, class Callback>
  void ExclusiveScan(T (&inputs)[kItems], T (&outputs)[kItems], Op op, Callback& callback) {
    T made;
    ExclusiveScan(together(inputs, op), made, op, callback);
    for (int i = 0; i < kItems; ++i) {
      const T next = op(made, inputs[i]);
      outputs[i] = made;
      made = next;
    }
  }

  template <class... A>
  void InclusiveSum(T input, T& output, A&... aggregate) {
    InclusiveScan(input, output, cub::Sum(), aggregate...);
  }
  template <int kItems, class... A>
  void InclusiveSum(T (&inputs)[kItems], T (&outputs)[kItems], A&... aggregate) {
    InclusiveScan(inputs, outputs, cub::Sum(), aggregate...);
  }
  void ExclusiveSum(T input, T& output) {
    ExclusiveScan(input, output, T{}, cub::Sum());
  }
  void ExclusiveSum(T input, T& output, T& aggregate) {
    ExclusiveScan(input, output, T{}, cub::Sum(), aggregate);
  }
  template <class Callback>
  void ExclusiveSum(T input, T& output, Callback& callback) {
    ExclusiveScan(input, output, cub::Sum(), callback);
  }
  template <int kItems>
  void ExclusiveSum(T (&inputs)[kItems], T (&outputs)[kItems]) {
    ExclusiveScan(inputs, outputs, T{}, cub::Sum());
  }
  template <int kItems>
  void ExclusiveSum(T (&inputs)[kItems], T (&outputs)[kItems], T& aggregate) {
    ExclusiveScan(inputs, outputs, T{}, cub::Sum(), aggregate);
  }
  template <int kItems, class Callback>
  void ExclusiveSum(T (&inputs)[kItems], T (&outputs)[kItems], Callback& callback) {
    ExclusiveScan(inputs, outputs, cub::Sum(), callback);
  }

 private:
  static unsigned rank() {
    return host_cuda::block_rank();
  }
  template <int kItems, class Op>
  static T together(T (&inputs)[kItems], Op op) {
    T made = inputs[0];
    for (int i = 1; i < kItems; ++i) made = op(made, inputs[i]);
    return made;
  }
  template <class Callback>
  T find_prefix(const T& aggregate, Callback& callback) {
    if (rank() < 32) {
      const T mine = callback(aggregate);
      if (rank() == 0) new (values_ + 2 * kThreads + 1) T(mine);
    }
    __syncthreads();
    return values_[2 * kThreads + 1];
  }
  // One thread does it for all.
  template <class Op>
  void scan(const T& input, Op op, bool inclusive) {
    const host_cuda::Ours ours(host_cuda::worker->watch);
    new (values_ + rank()) T(input);
    __syncthreads();
    if (rank() == 0) {
      const auto made = kAlgorithm == BLOCK_SCAN_WARP_SCANS ? host_cuda::warp_by_warp(values_, kThreads, inclusive, op)
                                                            : host_cuda::raked(values_, kThreads, inclusive, op);
      for (int i = 0; i < kThreads; ++i) new (values_ + kThreads + i) T(made.each[static_cast<size_t>(i)]);
      new (values_ + 2 * kThreads) T(made.total);
    }
    __syncthreads();
  }

  T* values_;
};

}  // namespace cub
