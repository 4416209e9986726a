// What the lanes of a warp have, combined; its first lane gets it.
#pragma once

#include "cub/thread/thread_operators.cuh"
#include "cub/util_type.cuh"
#include "host_cuda/orders.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

// The lanes that a thread's group of so many has; their values are in memory between two meetings.
template <int kLanes>
struct LaneGroup {
  unsigned rank = lane() % kLanes;
  unsigned mask = (kLanes == 32 ? ~0u : (1u << kLanes % 32) - 1) << (lane() / kLanes * kLanes);
};

}  // namespace host_cuda
#pragma GCC visibility pop

namespace cub {

template <class T, int kLanes = 32, int = 0>
class WarpReduce {
 public:
  typedef host_cuda::Room<T, kLanes> TempStorage;
  explicit WarpReduce(TempStorage& storage) : values_(storage.data()) {}

  template <class Op>
  T Reduce(T input, Op op, int valid = kLanes) {
    const host_cuda::Ours ours(host_cuda::worker->watch);
    const host_cuda::LaneGroup<kLanes> group;
    new (values_ + group.rank) T(input);
    __syncwarp(group.mask);
    if (host_cuda::is_giving()) return input;
    const T made = group.rank ? input : host_cuda::warp_total(std::vector<T>(values_, values_ + valid), op);
    __syncwarp(group.mask);
    return made;
  }
  T Sum(T input) {
    return Reduce(input, cub::Sum());
  }
  T Sum(T input, int valid) {
    return Reduce(input, cub::Sum(), valid);
  }

 private:
  T* values_;
};

}  // namespace cub
