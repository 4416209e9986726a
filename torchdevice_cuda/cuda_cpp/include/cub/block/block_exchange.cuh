// Items of a block's threads change places: blocked (a thread's follow each other), striped over the block or a warp.
#pragma once

#include "cub/util_type.cuh"

namespace cub {

template <class T, int kX, int kItems, bool = false, int kY = 1, int kZ = 1, int = 0>
class BlockExchange {
  static constexpr int kThreads = kX * kY * kZ;

 public:
  typedef host_cuda::Room<T, kThreads * kItems> TempStorage;
  BlockExchange() : values_(host_cuda::own_storage<TempStorage>().data()) {}
  explicit BlockExchange(TempStorage& storage) : values_(storage.data()) {}

#define HOST_CUDA_EXCHANGE(name, from, to)             \
  template <class Out>                                 \
  void name(const T(&in)[kItems], Out(&out)[kItems]) { \
    exchange(in, out, &from, &to);                     \
  }                                                    \
  void name(T(&items)[kItems]) {                       \
    exchange(items, items, &from, &to);                \
  }
  HOST_CUDA_EXCHANGE(StripedToBlocked, striped, blocked)
  HOST_CUDA_EXCHANGE(BlockedToStriped, blocked, striped)
  HOST_CUDA_EXCHANGE(WarpStripedToBlocked, warp_striped, blocked)
  HOST_CUDA_EXCHANGE(BlockedToWarpStriped, blocked, warp_striped)
#undef HOST_CUDA_EXCHANGE
  template <class Out, class Rank>
  void ScatterToBlocked(const T (&in)[kItems], Out (&out)[kItems], Rank (&ranks)[kItems]) {
    scatter(in, out, ranks, &blocked);
  }
  template <class Rank>
  void ScatterToBlocked(T (&items)[kItems], Rank (&ranks)[kItems]) {
    scatter(items, items, ranks, &blocked);
  }
  template <class Out, class Rank>
  void ScatterToStriped(const T (&in)[kItems], Out (&out)[kItems], Rank (&ranks)[kItems]) {
    scatter(in, out, ranks, &striped);
  }
  template <class Rank>
  void ScatterToStriped(T (&items)[kItems], Rank (&ranks)[kItems]) {
    scatter(items, items, ranks, &striped);
  }

 private:
  static int blocked(int i) {
    return static_cast<int>(host_cuda::block_rank()) * kItems + i;
  }
  static int striped(int i) {
    return i * kThreads + static_cast<int>(host_cuda::block_rank());
  }
  static int warp_striped(int i) {
    const int rank = static_cast<int>(host_cuda::block_rank()), lanes = kThreads < 32 ? kThreads : 32;
    return rank / lanes * lanes * kItems + i * lanes + rank % lanes;
  }
  template <class Out>
  void exchange(const T (&in)[kItems], Out (&out)[kItems], int (*from)(int), int (*to)(int)) {
    const host_cuda::Ours ours(host_cuda::worker->watch);
    for (int i = 0; i < kItems; ++i) new (values_ + from(i)) T(in[i]);
    __syncthreads();
    for (int i = 0; i < kItems; ++i) out[i] = values_[to(i)];
  }
  template <class Out, class Rank>
  void scatter(const T (&in)[kItems], Out (&out)[kItems], Rank (&ranks)[kItems], int (*to)(int)) {
    const host_cuda::Ours ours(host_cuda::worker->watch);
    for (int i = 0; i < kItems; ++i) new (values_ + ranks[i]) T(in[i]);
    __syncthreads();
    for (int i = 0; i < kItems; ++i) out[i] = values_[to(i)];
  }

  T* values_;
};

}  // namespace cub
