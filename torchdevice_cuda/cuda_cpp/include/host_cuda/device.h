// What device code calls: barriers, votes, shuffles, and which thread it is.
#pragma once

#include <chrono>

#include "host_cuda/addresses.h"
#include "host_cuda/launch.h"
#include "host_cuda/loops.h"

#define HOST_CUDA_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

#pragma GCC visibility push(hidden)
namespace host_cuda {

template <class T>
uint64_t bits_of(const T& value) {
  static_assert(sizeof(T) <= 8, "a lane exchanges at most 8 bytes");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T>
T from_bits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline unsigned lane() {
  return worker->rank % 32;
}

// Threads that are loops call twice: once to give, once to take when all have given.
template <class Read>
auto in_loops(Worker& w, unsigned mask, uint64_t value, const char* what, Where where, Read read) {
  Lanes& lanes = w.exchange[w.rank / 32];
  const unsigned bit = 1u << lane(), all = lanes.arrived;
  if (w.gives) {
    if (!(mask & bit))
      w.fail(cudaErrorLaunchFailure, where, "%s: the mask 0x%08x does not name the calling thread", what, mask);
    lanes.values[lane()] = value;
    lanes.arrived |= bit;
    return decltype(read(lanes)){};
  }
  if (const unsigned missed = mask & ~all & w.live_lanes()) w.miss(missed, what, where);
  lanes.arrived &= mask;
  const auto result = read(lanes);
  lanes.arrived = all;
  return result;
}
// What `read` makes of a warp's values.
template <class Read>
auto in_warp(unsigned mask, uint64_t value, const char* what, Where where, Read read) {
  Worker& w = *worker;
  if (w.exchange) return in_loops(w, mask, value, what, where, read);
  const Ours ours(w.watch);
  Meeting& m = w.meet(mask, value, what, where);
  const auto result = read(m);
  w.leave(m);
  return result;
}
template <class T>
T shuffled(unsigned mask, T value, int source, const char* what, Where where) {
  return in_warp(mask, bits_of(value), what, where, [&](const Lanes& m) {
    return source >= 0 && source < 32 && (m.arrived >> source & 1) ? from_bits<T>(m.values[source]) : value;
  });
}
template <class Keep>
unsigned lanes_where(const Lanes& m, Keep keep) {
  unsigned found = 0;
  for (unsigned i = 0; i < 32; ++i)
    if ((m.arrived >> i & 1) && keep(m.values[i])) found |= 1u << i;
  return found;
}
template <class T, class Fold>
T folded(unsigned mask, T value, const char* what, Where where, Fold fold) {
  return in_warp(mask, bits_of(value), what, where, [&](const Lanes& m) {
    bool any = false;
    T total{};
    for (unsigned i = 0; i < 32; ++i)
      if (m.arrived >> i & 1) {
        const T one = from_bits<T>(m.values[i]);
        total = any ? fold(total, one) : one;
        any = true;
      }
    return total;
  });
}

[[noreturn]] inline void assertion_failed(const char* what, const char* file, unsigned line, const char* function) {
  Worker* w = worker;
  if (!w) {
    fprintf(stderr, "%s:%u: %s: Assertion `%s' failed.\n", file, line, function ? function : "", what);
    abort();
  }
  if (!w->failed()) {
    fflush(stdout);
    fprintf(
        stderr, "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n", file, line,
        w->launch->name, w->block.x, w->block.y, w->block.z, w->thread.x, w->thread.y, w->thread.z, what);
  }
  w->end(cudaErrorAssert);
}

}  // namespace host_cuda
#pragma GCC visibility pop

static inline void __syncthreads(HOST_CUDA_HERE) {
  host_cuda::worker->barrier(false, "__syncthreads", {file, line});
}
static inline int __syncthreads_count(int predicate, HOST_CUDA_HERE) {
  return host_cuda::worker->barrier(predicate != 0, "__syncthreads_count", {file, line});
}
static inline int __syncthreads_or(int predicate, HOST_CUDA_HERE) {
  return host_cuda::worker->barrier(predicate != 0, "__syncthreads_or", {file, line}) != 0;
}
static inline int __syncthreads_and(int predicate, HOST_CUDA_HERE) {
  return host_cuda::worker->barrier(predicate == 0, "__syncthreads_and", {file, line}) == 0;
}
static inline void __syncwarp(unsigned mask = 0xffffffffu, HOST_CUDA_HERE) {
  host_cuda::in_warp(mask, 0, "__syncwarp", {file, line}, [](const host_cuda::Lanes&) { return 0; });
}
// Between accesses to volatile memory, which lanes exchange without a barrier (cuda_cpp/lockstep.py).
static inline void host_cuda_step_sync(unsigned place, HOST_CUDA_HERE) {
  if (host_cuda::worker) host_cuda::worker->step(place, {file, line});
}

template <class T>
static inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, HOST_CUDA_HERE) {
  const int lane = static_cast<int>(host_cuda::lane()), base = lane & ~(width - 1);
  return host_cuda::shuffled(mask, value, base + (source & (width - 1)), "__shfl_sync", {file, line});
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, HOST_CUDA_HERE) {
  const int lane = static_cast<int>(host_cuda::lane()), base = lane & ~(width - 1);
  const int source = lane - static_cast<int>(delta);
  return host_cuda::shuffled(mask, value, source < base ? lane : source, "__shfl_up_sync", {file, line});
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, HOST_CUDA_HERE) {
  const int lane = static_cast<int>(host_cuda::lane()), end = (lane & ~(width - 1)) + width;
  const int source = lane + static_cast<int>(delta);
  return host_cuda::shuffled(mask, value, source >= end ? lane : source, "__shfl_down_sync", {file, line});
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, HOST_CUDA_HERE) {
  const int lane = static_cast<int>(host_cuda::lane()), end = (lane & ~(width - 1)) + width;
  const int source = lane ^ lanes;
  return host_cuda::shuffled(mask, value, source >= end ? lane : source, "__shfl_xor_sync", {file, line});
}

static inline unsigned __ballot_sync(unsigned mask, int predicate, HOST_CUDA_HERE) {
  return host_cuda::in_warp(mask, predicate != 0, "__ballot_sync", {file, line}, [](const host_cuda::Lanes& m) {
    return host_cuda::lanes_where(m, [](uint64_t v) { return v != 0; });
  });
}
static inline int __any_sync(unsigned mask, int predicate, HOST_CUDA_HERE) {
  return __ballot_sync(mask, predicate, file, line) != 0;
}
static inline int __all_sync(unsigned mask, int predicate, HOST_CUDA_HERE) {
  return __ballot_sync(mask, !predicate, file, line) == 0;
}
template <class T>
static inline unsigned __match_any_sync(unsigned mask, T value, HOST_CUDA_HERE) {
  const uint64_t mine = host_cuda::bits_of(value);
  return host_cuda::in_warp(mask, mine, "__match_any_sync", {file, line}, [=](const host_cuda::Lanes& m) {
    return host_cuda::lanes_where(m, [=](uint64_t v) { return v == mine; });
  });
}
template <class T>
static inline unsigned __match_all_sync(unsigned mask, T value, int* all, HOST_CUDA_HERE) {
  const uint64_t mine = host_cuda::bits_of(value);
  return host_cuda::in_warp(mask, mine, "__match_all_sync", {file, line}, [=](const host_cuda::Lanes& m) {
    *all = host_cuda::lanes_where(m, [=](uint64_t v) { return v == mine; }) == m.arrived;
    return *all ? m.arrived : 0u;
  });
}
// Every lane that has not ended: which of them a GPU happens to run together here is not defined either.
static inline unsigned __activemask(HOST_CUDA_HERE) {
  return host_cuda::worker->converge({file, line});
}

template <class T>
static inline T __reduce_add_sync(unsigned mask, T value, HOST_CUDA_HERE) {
  return host_cuda::folded(mask, value, "__reduce_add_sync", {file, line}, [](T a, T b) { return a + b; });
}
template <class T>
static inline T __reduce_min_sync(unsigned mask, T value, HOST_CUDA_HERE) {
  return host_cuda::folded(mask, value, "__reduce_min_sync", {file, line}, [](T a, T b) { return b < a ? b : a; });
}
template <class T>
static inline T __reduce_max_sync(unsigned mask, T value, HOST_CUDA_HERE) {
  return host_cuda::folded(mask, value, "__reduce_max_sync", {file, line}, [](T a, T b) { return a < b ? b : a; });
}
static inline unsigned __reduce_and_sync(unsigned mask, unsigned value, HOST_CUDA_HERE) {
  return host_cuda::folded(
      mask, value, "__reduce_and_sync", {file, line}, [](unsigned a, unsigned b) { return a & b; });
}
static inline unsigned __reduce_or_sync(unsigned mask, unsigned value, HOST_CUDA_HERE) {
  return host_cuda::folded(mask, value, "__reduce_or_sync", {file, line}, [](unsigned a, unsigned b) { return a | b; });
}
static inline unsigned __reduce_xor_sync(unsigned mask, unsigned value, HOST_CUDA_HERE) {
  return host_cuda::folded(
      mask, value, "__reduce_xor_sync", {file, line}, [](unsigned a, unsigned b) { return a ^ b; });
}

static inline void __threadfence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}
[[noreturn]] static inline void __trap(HOST_CUDA_HERE) {
  host_cuda::worker->fail(cudaErrorLaunchFailure, {file, line}, "__trap()");
}
static inline void __nanosleep(unsigned) {}
// Counts nanoseconds: cudaDevAttrClockRate is 1 GHz.
static inline long long clock64() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
// In kernels, clock() is the GPU's counter and not the C library's function, which is called elsewhere.
static inline clock_t host_cuda_clock() {
  return host_cuda::worker ? static_cast<clock_t>(clock64()) : ::clock();
}
static inline unsigned long long __globaltimer() {
  return static_cast<unsigned long long>(clock64());
}

template <class T>
static inline T __ldg(const T* p) {
  return *p;
}
template <class T>
static inline T __ldcs(const T* p) {
  return *p;
}
template <class T>
static inline T __ldca(const T* p) {
  return *p;
}
template <class T>
static inline T __ldcg(const T* p) {
  return *p;
}
template <class T>
static inline void __stcs(T* p, T value) {
  *p = value;
}
template <class T>
static inline void __stcg(T* p, T value) {
  *p = value;
}
