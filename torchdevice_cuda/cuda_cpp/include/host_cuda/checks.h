// What the compiler calls in checked builds: before every access to memory (-fsanitize=thread, without its library),
// and where an index leaves an array (-fsanitize=bounds).
#pragma once

#include <set>
#include <tuple>

#include "host_cuda/lines.h"
#include "host_cuda/reach.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

inline const char* name_of(Use use) {
  return use == Use::kRead ? "read" : use == Use::kWrite ? "write" : "atomic";
}

[[noreturn]] inline void invalid(
    Worker& w, const char* space, Use use, const char* p, size_t n, int code, Nearest near, const void* from) {
  char text[400], distance[160] = "";
  const char* const end = near.begin + near.bytes;
  const bool inside = p >= near.begin && p < end, after = p >= end;
  const auto away = static_cast<size_t>(after ? p - end + 1 : near.begin - p);
  if (near.bytes && inside)
    snprintf(
        distance, sizeof distance, " and is inside the nearest allocation at %p", static_cast<const void*>(near.begin));
  else if (near.bytes)
    snprintf(
        distance, sizeof distance, " and is %zu bytes %s the nearest allocation at %p", away,
        after ? "after" : "before", static_cast<const void*>(near.begin));
  if (near.bytes) snprintf(distance + strlen(distance), 40, " of size %zu bytes", near.bytes);
  snprintf(
      text, sizeof text, "Invalid %s %s of size %zu bytes: access to 0x%zx is %s%s", space, name_of(use), n,
      reinterpret_cast<size_t>(p), code == cudaErrorMisalignedAddress ? "misaligned" : "out of bounds", distance);
  if (!w.failed()) w.say(text, w.thread, line_of(from));
  w.quit(code);  // the compiler takes these calls for ones that do not throw: no exception gets through them
}

inline uint3 thread_of(const Worker& w, unsigned rank) {
  const dim3 n = w.launch->block;
  return {rank % n.x, rank / n.x % n.y, rank / n.x / n.y};
}

// Two uses by threads that have not waited for each other. Said once for two instructions; the kernel goes on. Within a
// warp it is a warning: today's GPUs happen to run such threads together.
inline void hazard(Worker& w, size_t place, const Access& first, const Access& now) {
  const bool in_warp = first.rank / 32 == now.rank / 32;
  {
    static auto* const mutex = new std::mutex;
    static auto* const said = new std::set<std::tuple<const void*, const void*, bool>>;
    const std::lock_guard<std::mutex> lock(*mutex);
    if (!said->insert({std::min(first.from, now.from), std::max(first.from, now.from), in_warp}).second) return;
  }
  const auto verb = [](Use use) { return use == Use::kRead ? "Read" : "Write"; };
  const uint3 other = thread_of(w, first.rank);
  const Where there = line_of(first.from);
  char text[800];
  snprintf(
      text, sizeof text,
      "%s: Race reported between %s access and %s access by thread [%u,%u,%u] at %s:%d, at __shared__ 0x%zx",
      in_warp ? "Warning" : "Error", verb(now.use), verb(first.use), other.x, other.y, other.z,
      there.file ? there.file : "?", there.line, place);
  w.say(text, thread_of(w, now.rank), line_of(now.from));
}

// Two threads have written something: whether the second wrote something else.
HOST_CUDA_UNWATCHED inline void settle(Worker& w) {
  Doubt& doubt = w.watch.doubt;
  if (!doubt.at) return;
  const char* const at = doubt.at;
  doubt.at = nullptr;
  if (std::memcmp(at, doubt.before, doubt.bytes) != 0) hazard(w, doubt.place, doubt.first, doubt.second);
}

HOST_CUDA_UNWATCHED inline void use_shared(Worker& w, Area& area, const char* p, size_t n, Access now) {
  Access with;
  for (size_t i = 0; i < n; ++i) {
    Access found;
    if (w.watch.conflict(area.all[static_cast<size_t>(p - area.begin) + i], now, found) && !with.from) with = found;
  }
  if (!with.from) return;
  const auto place = static_cast<size_t>(p - area.begin);
  if (now.use == Use::kRead || with.use == Use::kRead || n > sizeof(Doubt::before)) return hazard(w, place, with, now);
  Doubt& doubt = w.watch.doubt;
  std::memcpy(doubt.before, p, n);
  doubt.at = p, doubt.bytes = n, doubt.place = place, doubt.first = with, doubt.second = now;
}

HOST_CUDA_UNWATCHED inline void look(Worker& w, const char* p, size_t n, Use use, bool aligned, const void* from) {
  const Ours ours(w.watch);
  settle(w);
  Area* near_area = nullptr;
  for (Area* area = w.watch.areas; area < w.watch.areas + w.watch.area_count; ++area)
    if (p + n > area->begin - kGuard && p < area->begin + area->bytes + kGuard) near_area = area;
  const char* const space = near_area ? "__shared__" : "__global__";
  if (aligned && n > 1 && reinterpret_cast<uintptr_t>(p) % n) {
    Nearest near;
    if (!near_area) reach(w, p, n, near);
    invalid(w, space, use, p, n, cudaErrorMisalignedAddress, near, from);
  }
  if (near_area) {
    Area& area = *near_area;
    if (p < area.begin || p + n > area.begin + area.bytes)
      invalid(w, space, use, p, n, cudaErrorIllegalAddress, {area.begin, area.bytes}, from);
    return use_shared(w, area, p, n, {w.rank, w.watch.interval, w.watch.clock_of(w.rank), use, from});
  }
  Nearest near;
  if (!reach(w, p, n, near)) invalid(w, space, use, p, n, cudaErrorIllegalAddress, near, from);
}

HOST_CUDA_UNWATCHED inline void used(const void* p, size_t n, Use use, bool aligned, const void* from) {
  Worker* const w = worker;
  if (!w || !w->watch.on) return;
  const auto* const begin = static_cast<const char*>(p);
  if (!w->watch.doubt.at && !(aligned && reinterpret_cast<uintptr_t>(p) & (n - 1)))
    for (const Range& r : w->watch.recent)
      if (begin >= r.begin && begin + n <= r.end) return;
  look(*w, begin, n, use, aligned, from);
}

}  // namespace host_cuda
#pragma GCC visibility pop

#define HOST_CUDA_HOOK extern "C" __attribute__((weak, visibility("hidden"), noinline)) HOST_CUDA_UNWATCHED
#define HOST_CUDA_FROM __builtin_return_address(0)
#define HOST_CUDA_ACCESS(name, bytes, kind, aligned)                                         \
  HOST_CUDA_HOOK void __tsan_##name(void* p) {                                               \
    host_cuda::used(p, bytes, host_cuda::Use::kind, aligned && bytes <= 16, HOST_CUDA_FROM); \
  }
#define HOST_CUDA_ACCESSES(n)                            \
  HOST_CUDA_ACCESS(read##n, n, kRead, true)              \
  HOST_CUDA_ACCESS(write##n, n, kWrite, true)            \
  HOST_CUDA_ACCESS(unaligned_read##n, n, kRead, false)   \
  HOST_CUDA_ACCESS(unaligned_write##n, n, kWrite, false) \
  HOST_CUDA_ACCESS(volatile_read##n, n, kRead, true)     \
  HOST_CUDA_ACCESS(volatile_write##n, n, kWrite, true)
HOST_CUDA_ACCESSES(1)
HOST_CUDA_ACCESSES(2)
HOST_CUDA_ACCESSES(4)
HOST_CUDA_ACCESSES(8)
HOST_CUDA_ACCESSES(16)
#undef HOST_CUDA_ACCESSES
#undef HOST_CUDA_ACCESS
HOST_CUDA_HOOK void __tsan_read_range(void* p, unsigned long n) {
  host_cuda::used(p, n, host_cuda::Use::kRead, false, HOST_CUDA_FROM);
}
HOST_CUDA_HOOK void __tsan_write_range(void* p, unsigned long n) {
  host_cuda::used(p, n, host_cuda::Use::kWrite, false, HOST_CUDA_FROM);
}
HOST_CUDA_HOOK void __tsan_init() {}
HOST_CUDA_HOOK void __tsan_func_entry(void*) {}
HOST_CUDA_HOOK void __tsan_func_exit() {}
HOST_CUDA_HOOK void __tsan_vptr_update(void*, void*) {}
HOST_CUDA_HOOK void __tsan_vptr_read(void*) {}
HOST_CUDA_HOOK void __tsan_atomic_thread_fence(int) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
HOST_CUDA_HOOK void __tsan_atomic_signal_fence(int) {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

// Atomics arrive as calls, of which the order is the strongest whatever was asked for.
#define HOST_CUDA_FETCH(n, name)                                                               \
  HOST_CUDA_HOOK uint##n##_t __tsan_atomic##n##_##name(volatile void* p, uint##n##_t v, int) { \
    host_cuda::used((const void*)p, n / 8, host_cuda::Use::kAtomic, true, HOST_CUDA_FROM);     \
    return __atomic_##name(static_cast<volatile uint##n##_t*>(p), v, __ATOMIC_SEQ_CST);        \
  }
#define HOST_CUDA_COMPARE(n, name, weak)                                                                  \
  HOST_CUDA_HOOK int __tsan_atomic##n##_##name(volatile void* p, void* old, uint##n##_t v, int, int) {    \
    host_cuda::used((const void*)p, n / 8, host_cuda::Use::kAtomic, true, HOST_CUDA_FROM);                \
    return __atomic_compare_exchange_n(                                                                   \
        static_cast<volatile uint##n##_t*>(p), static_cast<uint##n##_t*>(old), v, weak, __ATOMIC_SEQ_CST, \
        __ATOMIC_SEQ_CST);                                                                                \
  }
#define HOST_CUDA_ATOMICS(n)                                                                        \
  HOST_CUDA_FETCH(n, fetch_add)                                                                     \
  HOST_CUDA_FETCH(n, fetch_sub)                                                                     \
  HOST_CUDA_FETCH(n, fetch_and)                                                                     \
  HOST_CUDA_FETCH(n, fetch_or)                                                                      \
  HOST_CUDA_FETCH(n, fetch_xor)                                                                     \
  HOST_CUDA_FETCH(n, fetch_nand)                                                                    \
  HOST_CUDA_COMPARE(n, compare_exchange_strong, false)                                              \
  HOST_CUDA_COMPARE(n, compare_exchange_weak, true)                                                 \
  HOST_CUDA_HOOK uint##n##_t __tsan_atomic##n##_exchange(volatile void* p, uint##n##_t v, int) {    \
    host_cuda::used((const void*)p, n / 8, host_cuda::Use::kAtomic, true, HOST_CUDA_FROM);          \
    return __atomic_exchange_n(static_cast<volatile uint##n##_t*>(p), v, __ATOMIC_SEQ_CST);         \
  }                                                                                                 \
  HOST_CUDA_HOOK uint##n##_t __tsan_atomic##n##_load(const volatile void* p, int) {                 \
    host_cuda::used((const void*)p, n / 8, host_cuda::Use::kAtomic, true, HOST_CUDA_FROM);          \
    return __atomic_load_n(static_cast<const volatile uint##n##_t*>(p), __ATOMIC_SEQ_CST);          \
  }                                                                                                 \
  HOST_CUDA_HOOK void __tsan_atomic##n##_store(volatile void* p, uint##n##_t v, int) {              \
    host_cuda::used((const void*)p, n / 8, host_cuda::Use::kAtomic, true, HOST_CUDA_FROM);          \
    __atomic_store_n(static_cast<volatile uint##n##_t*>(p), v, __ATOMIC_SEQ_CST);                   \
  }                                                                                                 \
  HOST_CUDA_HOOK uint##n##_t __tsan_atomic##n##_compare_exchange_val(                               \
      volatile void* p, uint##n##_t old, uint##n##_t v, int, int) {                                 \
    host_cuda::used((const void*)p, n / 8, host_cuda::Use::kAtomic, true, HOST_CUDA_FROM);          \
    __atomic_compare_exchange_n(                                                                    \
        static_cast<volatile uint##n##_t*>(p), &old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    return old;                                                                                     \
  }
HOST_CUDA_ATOMICS(8)
HOST_CUDA_ATOMICS(16)
HOST_CUDA_ATOMICS(32)
HOST_CUDA_ATOMICS(64)
#undef HOST_CUDA_ATOMICS
#undef HOST_CUDA_COMPARE
#undef HOST_CUDA_FETCH
#undef HOST_CUDA_FROM

struct host_cuda_index_error {
  const char* file;
  unsigned line, column;
};
HOST_CUDA_HOOK void __ubsan_handle_out_of_bounds(host_cuda_index_error* where, unsigned long index) {
  host_cuda::Worker* const w = host_cuda::worker;
  if (!w) return;
  char text[80];
  snprintf(text, sizeof text, "index %ld is out of the array's bounds", static_cast<long>(index));
  w->watch.on = false;
  if (!w->failed()) w->say(text, w->thread, {where->file, static_cast<int>(where->line)});
  w->quit(cudaErrorIllegalAddress);
}
#undef HOST_CUDA_HOOK
