// Groups of threads: a block, tiles of a warp, the threads of a warp that have not ended.
#pragma once
#include "cuda_runtime.h"
#ifdef HOST_CUDA_TRANSLATED

namespace cooperative_groups {

class thread_block {
 public:
  static void sync(HOST_CUDA_HERE) {
    ::__syncthreads(file, line);
  }
  static unsigned thread_rank() {
    return host_cuda::worker->rank;
  }
  static unsigned size() {
    return host_cuda::worker->threads();
  }
  static unsigned num_threads() {
    return size();
  }
  static dim3 group_index() {
    return host_cuda::worker->block;
  }
  static dim3 thread_index() {
    return host_cuda::worker->thread;
  }
  static dim3 group_dim() {
    return host_cuda::worker->launch->block;
  }
  static dim3 dim_threads() {
    return group_dim();
  }
};
inline thread_block this_thread_block() {
  return {};
}

// Lanes of a warp, by their mask; ranks count its bits.
class warp_part {
 public:
  explicit warp_part(unsigned mask) : mask_(mask) {}
  void sync(HOST_CUDA_HERE) const {
    ::__syncwarp(mask_, file, line);
  }
  unsigned thread_rank() const {
    return static_cast<unsigned>(__builtin_popcount(mask_ & ((1u << host_cuda::lane()) - 1)));
  }
  unsigned size() const {
    return static_cast<unsigned>(__builtin_popcount(mask_));
  }
  unsigned num_threads() const {
    return size();
  }
  template <class T>
  T shfl(T value, unsigned rank, HOST_CUDA_HERE) const {
    return host_cuda::shuffled(mask_, value, lane_of(rank % size()), "shfl", {file, line});
  }
  template <class T>
  T shfl_down(T value, unsigned delta, HOST_CUDA_HERE) const {
    const unsigned to = thread_rank() + delta;
    return host_cuda::shuffled(mask_, value, to < size() ? lane_of(to) : own(), "shfl_down", {file, line});
  }
  template <class T>
  T shfl_up(T value, unsigned delta, HOST_CUDA_HERE) const {
    const unsigned me = thread_rank();
    return host_cuda::shuffled(mask_, value, me >= delta ? lane_of(me - delta) : own(), "shfl_up", {file, line});
  }
  template <class T>
  T shfl_xor(T value, unsigned lanes, HOST_CUDA_HERE) const {
    const unsigned to = thread_rank() ^ lanes;
    return host_cuda::shuffled(mask_, value, to < size() ? lane_of(to) : own(), "shfl_xor", {file, line});
  }
  int any(int predicate, HOST_CUDA_HERE) const {
    return ::__any_sync(mask_, predicate, file, line);
  }
  int all(int predicate, HOST_CUDA_HERE) const {
    return ::__all_sync(mask_, predicate, file, line);
  }
  unsigned ballot(int predicate, HOST_CUDA_HERE) const {
    return packed(::__ballot_sync(mask_, predicate, file, line));
  }
  template <class T>
  unsigned match_any(T value, HOST_CUDA_HERE) const {
    return packed(::__match_any_sync(mask_, value, file, line));
  }
  unsigned host_mask() const {
    return mask_;
  }

 protected:
  static int own() {
    return static_cast<int>(host_cuda::lane());
  }
  int lane_of(unsigned rank) const {
    for (int i = 0; i < 32; ++i)
      if ((mask_ >> i & 1) && rank-- == 0) return i;
    return own();
  }
  unsigned packed(unsigned lanes) const {
    unsigned result = 0, rank = 0;
    for (int i = 0; i < 32; ++i)
      if (mask_ >> i & 1) result |= (lanes >> i & 1) << rank++;
    return result;
  }
  unsigned mask_;
};
class coalesced_group : public warp_part {
  using warp_part::warp_part;
};
inline coalesced_group coalesced_threads() {
  return coalesced_group(__activemask());
}
template <unsigned Size, class Parent = void>
class thread_block_tile : public warp_part {
 public:
  static_assert(Size <= 32 && (Size & (Size - 1)) == 0, "tiles of at most a warp");
  thread_block_tile() : warp_part(static_cast<unsigned>(((1ull << Size) - 1) << (host_cuda::lane() / Size * Size))) {}
  unsigned meta_group_rank() const {
    return host_cuda::worker->rank / Size;
  }
  unsigned meta_group_size() const {
    return (host_cuda::worker->threads() + Size - 1) / Size;
  }
  static constexpr unsigned size() {
    return Size;
  }
  static constexpr unsigned num_threads() {
    return Size;
  }
};
template <unsigned Size, class Group>
thread_block_tile<Size, Group> tiled_partition(const Group&) {
  return {};
}
inline void sync(const thread_block&, HOST_CUDA_HERE) {
  ::__syncthreads(file, line);
}
template <class Group>
void sync(const Group& group, HOST_CUDA_HERE) {
  group.sync(file, line);
}

template <class T>
struct plus {
  T operator()(T a, T b) const {
    return a + b;
  }
};
template <class T>
struct less {
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
template <class T>
struct greater {
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
template <class Group, class T, class Fold>
T reduce(const Group& group, T value, Fold fold, HOST_CUDA_HERE) {
  return host_cuda::folded(group.host_mask(), value, "reduce", {file, line}, fold);
}

}  // namespace cooperative_groups
#endif
