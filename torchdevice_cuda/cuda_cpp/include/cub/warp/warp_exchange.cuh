// Items of a warp's lanes change places.
#pragma once

#include "cub/warp/warp_reduce.cuh"

namespace cub {

template <class T, int kItems, int kLanes = 32, int = 0>
class WarpExchange {
 public:
  typedef host_cuda::Room<T, kLanes * kItems> TempStorage;
  explicit WarpExchange(TempStorage& storage) : values_(storage.data()) {}
  template <class Out>
  void BlockedToStriped(const T (&in)[kItems], Out (&out)[kItems]) {
    exchange(in, out, false);
  }
  template <class Out>
  void StripedToBlocked(const T (&in)[kItems], Out (&out)[kItems]) {
    exchange(in, out, true);
  }

 private:
  template <class Out>
  void exchange(const T (&in)[kItems], Out (&out)[kItems], bool to_blocked) {
    const host_cuda::Ours ours(host_cuda::worker->watch);
    const host_cuda::LaneGroup<kLanes> group;
    const int rank = static_cast<int>(group.rank);
    for (int i = 0; i < kItems; ++i) new (values_ + (to_blocked ? i * kLanes + rank : rank * kItems + i)) T(in[i]);
    __syncwarp(group.mask);
    for (int i = 0; i < kItems; ++i) out[i] = values_[to_blocked ? rank * kItems + i : i * kLanes + rank];
    __syncwarp(group.mask);
  }

  T* values_;
};

}  // namespace cub
