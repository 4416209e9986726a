// What the compiler calls in checked builds: before every access to memory (-fsanitize=thread, without its library),
// and where an index leaves an array (-fsanitize=bounds).
#pragma once

#include <map>

#include "host_cuda/check_findings.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

HOST_CUDA_UNWATCHED inline void use_shared(Worker& w, Area& area, const char* p, size_t n, Access now) {
  Access with;
  bool is_written = true;
  for (size_t i = 0; i < n; ++i) {
    Access found;
    Byte& byte = area.all[static_cast<size_t>(p - area.begin) + i];
    if (now.use != Use::kWrite && !w.watch.has_written(byte)) is_written = false;
    if (w.watch.conflict(byte, now, found) && !with.from) with = found;
  }
  if (!is_written && host_sanitizer::is_on(host_sanitizer::kInitcheck)) say_unwritten(w, "shared", p, n, now.from);
  if (with.from && host_sanitizer::is_on(host_sanitizer::kRacecheck))
    doubt_or_say(w, p, n, static_cast<size_t>(p - area.begin), with, now, nullptr);
}

// How an access orders others: not at all, or as an atomic operation that reads, writes or does both.
enum class Order { kNone, kHears, kTells, kBoth };

// Code of this library, from which the distance of its instructions fits into 32 bits.
inline const char* anchor() {
  return reinterpret_cast<const char*>(&say_unwritten);
}
HOST_CUDA_UNWATCHED inline void use_global(Worker& w, const char* p, size_t n, const Access& now, Order order) {
  using host_sanitizer::Kind;
  auto& races = host_sanitizer::Races::get();
  const std::lock_guard<std::mutex> lock(races.mutex);
  host_sanitizer::Use use, found;
  use.clock = now.clock, use.rank = static_cast<uint16_t>(now.rank);
  use.kind = order != Order::kNone ? Kind::kAtomic
      : now.use == Use::kRead      ? Kind::kRead
      : now.use == Use::kWrite     ? Kind::kWrite
                                   : Kind::kAtomic;
  use.from = static_cast<int32_t>(static_cast<const char*>(now.from) - anchor());
  auto& block = w.watch.in_grid;
  const auto at = reinterpret_cast<uintptr_t>(p);
  const bool conflicts = races.use(block, at, n, use, found, [&](const auto& before, const auto&) {
    return w.watch.has_met(now.rank, before.rank, before.clock);
  });
  if (order != Order::kNone) races.signal(block, at, order != Order::kTells, order != Order::kHears);
  if (!conflicts) return;
  Access first;
  first.rank = found.rank, first.from = anchor() + found.from;
  first.use = found.kind == Kind::kRead ? Use::kRead : found.kind == Kind::kWrite ? Use::kWrite : Use::kAtomic;
  const unsigned number = races.moment(found).block;
  doubt_or_say(w, p, n, at, first, now, &number);
}
HOST_CUDA_UNWATCHED inline bool may_be_unwritten(const char* p, size_t n) {
  const auto begin = reinterpret_cast<uintptr_t>(p) & ~uintptr_t{3};
  for (uintptr_t at = begin; at < reinterpret_cast<uintptr_t>(p) + n; at += 4)
    if (host_sanitizer::holds_canary(at)) return true;
  return false;
}
inline void check_written(Worker& w, const char* p, size_t n, const void* from) {
  static auto* const mutex = new std::mutex;
  static auto* const suspicions = new std::map<const void*, host_sanitizer::Suspicion>;
  const std::lock_guard<std::mutex> lock(*mutex);
  if (host_sanitizer::is_unwritten(p, n, (*suspicions)[from])) say_unwritten(w, "global", p, n, from);
}
HOST_CUDA_UNWATCHED inline void use_range(
    Worker& w, const Range& range, const char* p, size_t n, Use use, Order order, const void* from) {
  const Ours ours(w.watch);
  const unsigned tools = host_sanitizer::settings().tools;
  if (range.is_tracked && use != Use::kWrite && (tools & host_sanitizer::kInitcheck) && may_be_unwritten(p, n))
    check_written(w, p, n, from);
  if (range.is_global && (tools & host_sanitizer::kRacecheck))
    use_global(w, p, n, {w.rank, w.watch.interval, w.watch.clock_of(w.rank), use, from}, order);
}

HOST_CUDA_UNWATCHED inline void look(
    Worker& w, const char* p, size_t n, Use use, bool aligned, Order order, const void* from) {
  const Ours ours(w.watch);
  settle(w);
  Area* near_area = nullptr;
  for (Area* area = w.watch.areas; area < w.watch.areas + w.watch.area_count; ++area)
    if (p + n > area->begin - kGuard && p < area->begin + area->bytes + kGuard) near_area = area;
  const char* const space = near_area ? "__shared__" : "__global__";
  const bool is_memcheck = host_sanitizer::is_on(host_sanitizer::kMemcheck);
  Nearest near;
  Range range;
  if (is_memcheck && aligned && n > 1 && reinterpret_cast<uintptr_t>(p) % n) {
    if (!near_area) reach(w, p, n, near, range);
    invalid(w, space, use, p, n, cudaErrorMisalignedAddress, near, from);
  }
  if (near_area) {
    Area& area = *near_area;
    if (p >= area.begin && p + n <= area.begin + area.bytes)
      use_shared(w, area, p, n, {w.rank, w.watch.interval, w.watch.clock_of(w.rank), use, from});
    else if (is_memcheck)
      invalid(w, space, use, p, n, cudaErrorIllegalAddress, {area.begin, area.bytes}, from);
    return;
  }
  if (reach(w, p, n, near, range))
    use_range(w, range, p, n, use, order, from);
  else if (is_memcheck)
    invalid(w, space, use, p, n, cudaErrorIllegalAddress, near, from);
}

HOST_CUDA_UNWATCHED inline void used(
    const void* p, size_t n, Use use, bool aligned, const void* from, Order order = Order::kNone) {
  Worker* const w = worker;
  if (!w || !w->watch.on) return;
  const auto* const begin = static_cast<const char*>(p);
  if (!w->watch.doubt.at && !(aligned && reinterpret_cast<uintptr_t>(p) & (n - 1)))
    for (const Range& r : w->watch.recent)
      if (begin >= r.begin && begin + n <= r.end)
        return r.is_global ? use_range(*w, r, begin, n, use, order, from) : void();
  look(*w, begin, n, use, aligned, order, from);
}
HOST_CUDA_UNWATCHED inline void fence() {
  if (!worker || !worker->watch.on) return;
  const Ours ours(worker->watch);
  worker->watch.fence();
}
// An atomic operation, of the order that the program asked for.
HOST_CUDA_UNWATCHED inline void used_atomically(
    const void* p, size_t n, Order order, int memory_order, const void* from) {
  if (order != Order::kHears && memory_order >= __ATOMIC_RELEASE) fence();
  used(p, n, Use::kAtomic, true, from, order);
}

}  // namespace host_cuda
#pragma GCC visibility pop

#include "host_cuda/memory_hooks.h"

struct host_cuda_index_error {
  const char* file;
  unsigned line, column;
};
HOST_CUDA_HOOK void __ubsan_handle_out_of_bounds(host_cuda_index_error* where, unsigned long index) {
  host_cuda::Worker* const w = host_cuda::worker;
  if (!w) return;
  char text[80];
  snprintf(text, sizeof text, "index %ld is out of the array's bounds", static_cast<long>(index));
  if (!host_sanitizer::is_on(host_sanitizer::kMemcheck)) return;
  w->watch.on = false;
  const host_cuda::Where at{where->file, static_cast<int>(where->line)};
  if (!w->failed()) host_cuda::say_finding(*w, host_sanitizer::kMemcheck, true, text, w->thread, at);
  w->quit(cudaErrorIllegalAddress);
}
#undef HOST_CUDA_HOOK
