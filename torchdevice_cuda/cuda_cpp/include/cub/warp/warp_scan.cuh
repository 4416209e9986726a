// What the lanes of a warp have, combined up to each.
#pragma once

#include "cub/warp/warp_reduce.cuh"

namespace cub {

template <class T, int kLanes = 32, int = 0>
class WarpScan {
 public:
  typedef host_cuda::Room<T, kLanes> TempStorage;
  explicit WarpScan(TempStorage& storage) : values_(storage.data()) {}

  template <class Op>
  void InclusiveScan(T input, T& output, Op op, T& aggregate) {
    const host_cuda::Ours ours(host_cuda::worker->watch);
    const auto made = scan(input, op);
    output = made[host_cuda::LaneGroup<kLanes>().rank];
    aggregate = made.back();
  }
  template <class Op>
  void InclusiveScan(T input, T& output, Op op) {
    T aggregate;
    InclusiveScan(input, output, op, aggregate);
  }
  template <class Op>
  void ExclusiveScan(T input, T& output, T initial, Op op, T& aggregate) {
    const host_cuda::Ours ours(host_cuda::worker->watch);
    const auto made = scan(input, op);
    const unsigned rank = host_cuda::LaneGroup<kLanes>().rank;
    output = rank ? op(initial, made[rank - 1]) : initial;
    aggregate = made.back();
  }
  template <class Op>
  void ExclusiveScan(T input, T& output, T initial, Op op) {
    T aggregate;
    ExclusiveScan(input, output, initial, op, aggregate);
  }
  template <class... A>
  void InclusiveSum(T input, T& output, A&... aggregate) {
    InclusiveScan(input, output, cub::Sum(), aggregate...);
  }
  template <class... A>
  void ExclusiveSum(T input, T& output, A&... aggregate) {
    ExclusiveScan(input, output, T{}, cub::Sum(), aggregate...);
  }
  T Broadcast(T input, unsigned source) {
    const host_cuda::LaneGroup<kLanes> group;
    new (values_ + group.rank) T(input);
    __syncwarp(group.mask);
    const T made = values_[source];
    __syncwarp(group.mask);
    return made;
  }

 private:
  template <class Op>
  std::vector<T> scan(const T& input, Op op) {
    const host_cuda::LaneGroup<kLanes> group;
    new (values_ + group.rank) T(input);
    __syncwarp(group.mask);
    auto made = host_cuda::warp_sums(std::vector<T>(values_, values_ + kLanes), op);
    __syncwarp(group.mask);
    return made;
  }

  T* values_;
};

}  // namespace cub
