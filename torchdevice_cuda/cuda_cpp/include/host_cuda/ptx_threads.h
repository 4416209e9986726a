// Instructions of PTX that need a thread, its warp or its block. Names that end with _sync wait for other threads.
#pragma once

#include "host_cuda/addresses.h"
#include "host_cuda/device.h"
#include "host_cuda/tiles.h"
#include "host_ptx/ptx.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

inline unsigned ptx_rank(uint3 thread, dim3 block) {
  return (thread.z * block.y + thread.y) * block.x + thread.x;
}
inline unsigned ptx_lane(uint3 thread, dim3 block) {
  return ptx_rank(thread, block) % 32;
}
inline unsigned ptx_warp(uint3 thread, dim3 block) {
  return ptx_rank(thread, block) / 32;
}
inline unsigned ptx_dynamic_sync() {
  return static_cast<unsigned>(worker->launch->shared);
}

// The limits of a segment are in c: a clamp, and a mask of the lane's bits that stay.
inline unsigned ptx_shfl(
    unsigned a, int source, bool is_inside, unsigned mask, bool& inside, const char* what, Where where) {
  inside = is_inside;
  return shuffled(mask, a, is_inside ? source : static_cast<int>(lane()), what, where);
}
inline int ptx_last(unsigned c) {
  const unsigned segment = c >> 8 & 31, clamp = c & 31;
  return static_cast<int>((lane() & segment) | (clamp & ~segment));
}
inline unsigned ptx_shfl_up_sync(unsigned a, unsigned b, unsigned c, unsigned mask, bool& inside, HOST_CUDA_HERE) {
  const int source = static_cast<int>(lane()) - static_cast<int>(b & 31);
  return ptx_shfl(a, source, source >= ptx_last(c), mask, inside, "shfl.sync.up", {file, line});
}
inline unsigned ptx_shfl_down_sync(unsigned a, unsigned b, unsigned c, unsigned mask, bool& inside, HOST_CUDA_HERE) {
  const int source = static_cast<int>(lane() + (b & 31));
  return ptx_shfl(a, source, source <= ptx_last(c), mask, inside, "shfl.sync.down", {file, line});
}
inline unsigned ptx_shfl_bfly_sync(unsigned a, unsigned b, unsigned c, unsigned mask, bool& inside, HOST_CUDA_HERE) {
  const int source = static_cast<int>(lane() ^ (b & 31));
  return ptx_shfl(a, source, source <= ptx_last(c), mask, inside, "shfl.sync.bfly", {file, line});
}
inline unsigned ptx_shfl_idx_sync(unsigned a, unsigned b, unsigned c, unsigned mask, bool& inside, HOST_CUDA_HERE) {
  const unsigned segment = c >> 8 & 31;
  const int source = static_cast<int>((lane() & segment) | (b & 31 & ~segment));
  return ptx_shfl(a, source, source <= ptx_last(c), mask, inside, "shfl.sync.idx", {file, line});
}

inline bool ptx_vote_all_sync(bool a, unsigned mask, HOST_CUDA_HERE) {
  return __all_sync(mask, a, file, line) != 0;
}
inline bool ptx_vote_any_sync(bool a, unsigned mask, HOST_CUDA_HERE) {
  return __any_sync(mask, a, file, line) != 0;
}
inline bool ptx_vote_uni_sync(bool a, unsigned mask, HOST_CUDA_HERE) {
  return in_warp(mask, a, "vote.sync.uni", {file, line}, [](const Lanes& m) {
    const unsigned yes = lanes_where(m, [](uint64_t v) { return v != 0; });
    return yes == 0 || yes == m.arrived;
  });
}
template <class T>
unsigned ptx_match_all_sync(T a, unsigned mask, bool& all, HOST_CUDA_HERE) {
  int is_same = 0;
  const unsigned found = __match_all_sync(mask, a, &is_same, file, line);
  all = is_same != 0;
  return found;
}
// The lowest lane of the mask leads.
inline unsigned ptx_elect_sync(unsigned mask, bool& is_leader, HOST_CUDA_HERE) {
  return in_warp(mask, 0, "elect.sync", {file, line}, [&](const Lanes& m) {
    const auto leader = static_cast<unsigned>(__builtin_ctz(m.arrived));
    is_leader = leader == lane();
    return leader;
  });
}

// Barriers by number are the block's: those of a part of its threads are refused when they are reached.
inline void ptx_name_barrier(unsigned) {}
inline void ptx_check_barrier(unsigned number, unsigned threads, HOST_CUDA_HERE) {
  if (threads != worker->threads())
    worker->fail(
        cudaErrorLaunchFailure, {file, line}, "bar.sync %u of %u of the block's %u threads is not supported here",
        number, threads, worker->threads());
}

inline bool ptx_is_shared(uint64_t a) {
  return is_shared(a);
}
inline bool ptx_is_global(uint64_t a) {
  return !is_shared(a);
}
inline bool ptx_is_const(uint64_t) {
  return false;
}
inline bool ptx_is_local(uint64_t) {
  return false;
}
inline bool ptx_is_param(uint64_t) {
  return false;
}
template <class T>
T ptx_cvta_to_shared(T a) {
  return static_cast<T>(static_cast<uint32_t>(a));
}
template <class T>
T ptx_cvta_shared(T a) {
  return static_cast<T>(reinterpret_cast<uintptr_t>(find_shared_bytes(a)));
}
#define HOST_CUDA_SAME_SPACE(name) \
  template <class T>               \
  T ptx_cvta_##name(T a) {         \
    return a;                      \
  }                                \
  template <class T>               \
  T ptx_cvta_to_##name(T a) {      \
    return a;                      \
  }
HOST_CUDA_SAME_SPACE(const)
HOST_CUDA_SAME_SPACE(local)
HOST_CUDA_SAME_SPACE(param)
#undef HOST_CUDA_SAME_SPACE

// What is copied is there at once; bytes behind the source's are zero.
inline void ptx_copy_async(uint8_t* to, const uint8_t* from, unsigned bytes, unsigned source_bytes) {
  if (source_bytes > bytes) source_bytes = bytes;
  for (unsigned i = 0; i < bytes; ++i) to[i] = i < source_bytes ? from[i] : uint8_t(0);
}
[[noreturn]] inline void ptx_exit_sync() {
  throw Ended{};
}

}  // namespace host_cuda
#pragma GCC visibility pop
