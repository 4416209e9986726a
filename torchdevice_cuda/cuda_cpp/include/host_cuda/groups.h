// The groups of cooperative_groups.h.
#pragma once

#include "host_cuda/device.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

// Another lane's value of any size, eight bytes at a time.
template <class T>
T shuffled_any(unsigned mask, const T& value, int source, const char* what, Where where) {
  if constexpr (sizeof(T) <= 8) {
    return shuffled(mask, value, source, what, where);
  } else {
    T made = value;
    for (size_t i = 0; i < sizeof(T); i += 8) {
      uint64_t word = 0;
      const size_t bytes = sizeof(T) - i < 8 ? sizeof(T) - i : 8;
      std::memcpy(&word, reinterpret_cast<const char*>(&value) + i, bytes);
      word = shuffled(mask, word, source, what, where);
      std::memcpy(reinterpret_cast<char*>(&made) + i, &word, bytes);
    }
    return made;
  }
}

}  // namespace host_cuda
#pragma GCC visibility pop

namespace cooperative_groups {

class thread_block {
 public:
  static void sync(HOST_CUDA_HERE) {
    ::__syncthreads(file, line);
  }
  static void barrier_sync(HOST_CUDA_HERE) {
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

// All threads of a launch. Its blocks wait for each other if it is a cooperative one.
class grid_group {
 public:
  bool is_valid() const {
    return num_blocks() == 1 || host_cuda::worker->launch->grid_barrier;
  }
  void sync(HOST_CUDA_HERE) const {
    auto& w = *host_cuda::worker;
    if (!is_valid())
      w.fail(
          cudaErrorLaunchFailure, {file, line},
          "grid.sync() in a kernel of several blocks that cudaLaunchCooperativeKernel did not launch");
    w.meet_grid({file, line});
  }
  static unsigned long long thread_rank() {
    return block_rank() * threads_of_block() + host_cuda::worker->rank;
  }
  static unsigned long long size() {
    return num_blocks() * threads_of_block();
  }
  static unsigned long long num_threads() {
    return size();
  }
  static unsigned long long num_blocks() {
    const dim3 g = host_cuda::worker->launch->grid;
    return static_cast<unsigned long long>(g.x) * g.y * g.z;
  }
  static unsigned long long block_rank() {
    const dim3 g = host_cuda::worker->launch->grid;
    const uint3 b = host_cuda::worker->block;
    return (static_cast<unsigned long long>(b.z) * g.y + b.y) * g.x + b.x;
  }
  static dim3 dim_blocks() {
    return host_cuda::worker->launch->grid;
  }
  static dim3 group_dim() {
    return dim_blocks();
  }
  static dim3 block_index() {
    return host_cuda::worker->block;
  }

 private:
  static unsigned long long threads_of_block() {
    const dim3 n = host_cuda::worker->launch->block;
    return static_cast<unsigned long long>(n.x) * n.y * n.z;
  }
};
inline grid_group this_grid() {
  return {};
}

// Lanes of a warp, by their mask; ranks count its bits.
class warp_part {
 public:
  explicit warp_part(unsigned mask, unsigned index = 0, unsigned parts = 1)
      : mask_(mask), index_(index), parts_(parts) {}
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
  unsigned meta_group_rank() const {
    return index_;
  }
  unsigned meta_group_size() const {
    return parts_;
  }
  template <class T>
  T shfl(T value, unsigned rank, HOST_CUDA_HERE) const {
    return host_cuda::shuffled_any(mask_, value, lane_of(rank % size()), "shfl", {file, line});
  }
  template <class T>
  T shfl_down(T value, unsigned delta, HOST_CUDA_HERE) const {
    const unsigned to = thread_rank() + delta;
    return host_cuda::shuffled_any(mask_, value, to < size() ? lane_of(to) : own(), "shfl_down", {file, line});
  }
  template <class T>
  T shfl_up(T value, unsigned delta, HOST_CUDA_HERE) const {
    const unsigned me = thread_rank();
    return host_cuda::shuffled_any(mask_, value, me >= delta ? lane_of(me - delta) : own(), "shfl_up", {file, line});
  }
  template <class T>
  T shfl_xor(T value, unsigned lanes, HOST_CUDA_HERE) const {
    const unsigned to = thread_rank() ^ lanes;
    return host_cuda::shuffled_any(mask_, value, to < size() ? lane_of(to) : own(), "shfl_xor", {file, line});
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
  template <class T>
  unsigned match_all(T value, int& all, HOST_CUDA_HERE) const {
    return packed(::__match_all_sync(mask_, value, &all, file, line));
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
  unsigned mask_, index_, parts_;
};
class coalesced_group : public warp_part {
  using warp_part::warp_part;
};
inline coalesced_group coalesced_threads(HOST_CUDA_HERE) {
  return coalesced_group(__activemask(file, line));
}

// Tiles of a block, or of a tile.
template <unsigned Size, class Parent = void>
class thread_block_tile : public warp_part {
 public:
  static_assert(Size <= 32 && (Size & (Size - 1)) == 0, "tiles of at most a warp are supported here");
  thread_block_tile() : warp_part(static_cast<unsigned>(((1ull << Size) - 1) << (host_cuda::lane() / Size * Size))) {
    index_ = host_cuda::worker->rank / Size;
    parts_ = (host_cuda::worker->threads() + Size - 1) / Size;
  }
  template <unsigned Around, class Grand>
  explicit thread_block_tile(const thread_block_tile<Around, Grand>&) : thread_block_tile() {
    index_ %= Around / Size;
    parts_ = Around / Size;
  }
  template <class Other>
  thread_block_tile(const thread_block_tile<Size, Other>& other) : warp_part(other) {}
  static unsigned thread_rank() {
    return host_cuda::lane() % Size;
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
template <unsigned Size, unsigned Around, class Grand>
thread_block_tile<Size, thread_block_tile<Around, Grand>> tiled_partition(const thread_block_tile<Around, Grand>& of) {
  static_assert(Size <= Around, "a tile is no larger than what it is a part of");
  if constexpr (Size == Around)
    return thread_block_tile<Size>();
  else
    return thread_block_tile<Size, thread_block_tile<Around, Grand>>(of);
}

// Any of the groups, where a function takes each.
class thread_group {
 public:
  thread_group(const thread_block&) : part_(0) {}
  thread_group(const warp_part& part) : part_(part), is_block_(false) {}
  void sync(HOST_CUDA_HERE) const {
    is_block_ ? ::__syncthreads(file, line) : part_.sync(file, line);
  }
  unsigned thread_rank() const {
    return is_block_ ? thread_block::thread_rank() : part_.thread_rank();
  }
  unsigned size() const {
    return is_block_ ? thread_block::size() : part_.size();
  }
  unsigned num_threads() const {
    return size();
  }

 private:
  warp_part part_;
  bool is_block_ = true;
};
// Of a size that is known at run time.
inline thread_group tiled_partition(const thread_group&, unsigned size) {
  const unsigned lane = host_cuda::lane();
  return warp_part(
      static_cast<unsigned>(((1ull << size) - 1) << (lane / size * size)), host_cuda::worker->rank / size,
      (host_cuda::worker->threads() + size - 1) / size);
}

// The lanes whose label is the same. Parts are numbered by their labels.
template <class Label>
coalesced_group labeled_partition(const warp_part& group, Label label, HOST_CUDA_HERE) {
  const unsigned mask = ::__match_any_sync(group.host_mask(), label, file, line);
  const unsigned firsts =
      ::__ballot_sync(group.host_mask(), host_cuda::lane() == static_cast<unsigned>(__builtin_ctz(mask)), file, line);
  const auto index = static_cast<unsigned>(__builtin_popcount(firsts & ((mask & (~mask + 1)) - 1)));
  return coalesced_group(mask, index, static_cast<unsigned>(__builtin_popcount(firsts)));
}
inline coalesced_group binary_partition(const warp_part& group, bool label, HOST_CUDA_HERE) {
  const unsigned yes = ::__ballot_sync(group.host_mask(), label, file, line);
  return coalesced_group(label ? yes : group.host_mask() & ~yes, label, 2);
}
inline coalesced_group tiled_partition(const coalesced_group& group, unsigned size) {
  const unsigned first = group.thread_rank() / size * size;
  unsigned rank = 0, mask = 0;
  for (unsigned i = 0; i < 32; ++i)
    if (group.host_mask() >> i & 1) {
      if (rank >= first && rank < first + size) mask |= 1u << i;
      ++rank;
    }
  return coalesced_group(mask, first / size, (group.size() + size - 1) / size);
}

}  // namespace cooperative_groups
