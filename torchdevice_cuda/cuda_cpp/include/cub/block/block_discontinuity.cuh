// Flags of items that differ from the item before or after them in the block; differences of neighbours.
#pragma once

#include "cub/util_type.cuh"

namespace cub {

template <class T, int kX, int kY = 1, int kZ = 1, int = 0>
class BlockDiscontinuity {
  static constexpr int kThreads = kX * kY * kZ;

 public:
  struct TempStorage {
    host_cuda::Room<T, kThreads> firsts, lasts;
  };
  BlockDiscontinuity() : memory_(host_cuda::own_storage<TempStorage>()) {}
  explicit BlockDiscontinuity(TempStorage& storage) : memory_(storage) {}

  // The block's first item has a flag; with an item before the block, it is compared with that.
  template <int kItems, class Flag, class Op>
  void FlagHeads(Flag (&flags)[kItems], T (&items)[kItems], Op op) {
    share(items);
    for (int i = 0; i < kItems; ++i)
      flags[i] = i ? op(items[i - 1], items[i]) : (rank() ? op(memory_.lasts.data()[rank() - 1], items[0]) : Flag(1));
  }
  template <int kItems, class Flag, class Op>
  void FlagHeads(Flag (&flags)[kItems], T (&items)[kItems], Op op, T before) {
    FlagHeads(flags, items, op);
    if (rank() == 0) flags[0] = op(before, items[0]);
  }
  template <int kItems, class Flag, class Op>
  void FlagTails(Flag (&flags)[kItems], T (&items)[kItems], Op op) {
    share(items);
    for (int i = 0; i < kItems; ++i)
      flags[i] = i + 1 < kItems   ? op(items[i], items[i + 1])
          : rank() + 1 < kThreads ? op(items[i], memory_.firsts.data()[rank() + 1])
                                  : Flag(1);
  }
  template <int kItems, class Flag, class Op>
  void FlagTails(Flag (&flags)[kItems], T (&items)[kItems], Op op, T after) {
    FlagTails(flags, items, op);
    if (rank() + 1 == kThreads) flags[kItems - 1] = op(items[kItems - 1], after);
  }

 private:
  static int rank() {
    return static_cast<int>(host_cuda::block_rank());
  }
  template <int kItems>
  void share(T (&items)[kItems]) {
    const host_cuda::Ours ours(host_cuda::worker->watch);
    new (memory_.firsts.data() + rank()) T(items[0]);
    new (memory_.lasts.data() + rank()) T(items[kItems - 1]);
    __syncthreads();
  }

  TempStorage& memory_;
};

}  // namespace cub
