// What is said of kernels in checked builds: accesses that are wrong, threads that do not wait for each other, memory
// that nothing has written or given back.
#pragma once

#include <algorithm>
#include <mutex>
#include <set>
#include <string>
#include <tuple>

#include "host_cuda/lines.h"
#include "host_cuda/reach.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

inline const char* name_of(Use use) {
  return use == Use::kRead ? "read" : use == Use::kWrite ? "write" : "atomic";
}

// One line: what is wrong, and where.
inline void say_finding(
    const Worker& w, host_sanitizer::Tool tool, bool is_error, const char* text, uint3 t, Where at) {
  host_sanitizer::report(
      {tool, is_error, w.launch->name, at.file, at.line, {w.block.x, w.block.y, w.block.z}, {t.x, t.y, t.z}, text});
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
  if (!w.failed()) say_finding(w, host_sanitizer::kMemcheck, true, text, w.thread, line_of(from));
  w.quit(code);  // the compiler takes these calls for ones that do not throw: no exception gets through them
}

inline uint3 thread_of(const Worker& w, unsigned rank) {
  const dim3 n = w.launch->block;
  return {rank % n.x, rank / n.x % n.y, rank / n.x / n.y};
}

// Returns true once for two instructions, or two lines.
template <class T>
bool is_new(T first, T now, int kind) {
  static auto* const mutex = new std::mutex;
  static auto* const said = new std::set<std::tuple<T, T, int>>;
  const std::lock_guard<std::mutex> lock(*mutex);
  return said->insert({std::min(first, now), std::max(first, now), kind}).second;
}
inline std::string name_of(Where line) {
  return (line.file ? line.file : "?") + (':' + std::to_string(line.line));
}

// Two uses by threads that have not waited for each other. Said once for two instructions; the kernel goes on. Within a
// warp it is a warning: today's GPUs happen to run such threads together. `block` is that of the first use, if memory
// is global.
inline void hazard(Worker& w, size_t place, const Access& first, const Access& now, const unsigned* block) {
  const dim3 g = w.launch->grid;
  const uint3 there = block ? uint3{*block % g.x, *block / g.x % g.y, *block / g.x / g.y} : w.block;
  const bool in_block = there.x == w.block.x && there.y == w.block.y && there.z == w.block.z;
  const bool in_warp = in_block && first.rank / 32 == now.rank / 32;
  if (!is_new(first.from, now.from, in_warp)) return;
  const auto verb = [](Use use) { return use == Use::kRead ? "Read" : use == Use::kWrite ? "Write" : "Atomic"; };
  const uint3 other = thread_of(w, first.rank);
  const Where before = line_of(first.from), after = line_of(now.from);
  if (!is_new(name_of(before), name_of(after), in_warp)) return;
  char text[800], in_other[60] = "";
  if (block) snprintf(in_other, sizeof in_other, " of block [%u,%u,%u]", there.x, there.y, there.z);
  snprintf(
      text, sizeof text,
      "%s: Race reported between %s access and %s access by thread [%u,%u,%u]%s at %s, at __%s__ 0x%zx",
      in_warp ? "Warning" : "Error", verb(now.use), verb(first.use), other.x, other.y, other.z, in_other,
      name_of(before).c_str(), block ? "global" : "shared", place);
  say_finding(w, host_sanitizer::kRacecheck, !in_warp, text, thread_of(w, now.rank), after);
}

// Two threads have written something: whether the second wrote something else.
HOST_CUDA_UNWATCHED inline void settle(Worker& w) {
  Doubt& doubt = w.watch.doubt;
  if (!doubt.at) return;
  const char* const at = doubt.at;
  doubt.at = nullptr;
  if (std::memcmp(at, doubt.before, doubt.bytes) != 0)
    hazard(w, doubt.place, doubt.first, doubt.second, doubt.is_global ? &doubt.block : nullptr);
}
// Says it now, or, of two writes, once the second is done.
HOST_CUDA_UNWATCHED inline void doubt_or_say(
    Worker& w, const char* p, size_t n, size_t place, const Access& first, const Access& now, const unsigned* block) {
  Doubt& doubt = w.watch.doubt;
  if (now.use == Use::kRead || first.use == Use::kRead || n > sizeof doubt.before)
    return hazard(w, place, first, now, block);
  std::memcpy(doubt.before, p, n);
  doubt.at = p, doubt.bytes = n, doubt.place = place, doubt.first = first, doubt.second = now;
  doubt.is_global = block != nullptr;
  if (block) doubt.block = *block;
}

inline void say_unwritten(Worker& w, const char* space, const char* p, size_t n, const void* from) {
  if (!is_new(from, from, 2)) return;
  const Lines lines = find_lines(from);
  // CUB's functions write their memory where no check sees it.
  if (lines.own.file && strstr(lines.own.file, "/cuda_cpp/include/cub/")) return;
  char text[200];
  snprintf(
      text, sizeof text, "Error: Uninitialized __%s__ memory read of size %zu bytes at 0x%zx", space, n,
      reinterpret_cast<size_t>(p));
  say_finding(w, host_sanitizer::kInitcheck, true, text, w.thread, lines.programs);
}

// Threads that others wait for and that do not come. A GPU does not wait for threads that have ended, and
// compute-sanitizer accepts them; so that is a warning.
inline void say_divergent(const Worker& w, bool is_error, const Fiber& waiting, const char* what, const char* others) {
  if (!is_new(name_of(waiting.where), std::string(what), is_error)) return;
  char text[300];
  snprintf(
      text, sizeof text, "%s: Barrier error detected. Divergent thread(s) in %s", is_error ? "Error" : "Warning",
      others);
  say_finding(w, host_sanitizer::kSynccheck, is_error, text, waiting.thread, waiting.where);
}
inline void check_barrier(const Worker& w, const std::vector<Fiber*>& waiting, const char* what) {
  if (!host_sanitizer::is_on(host_sanitizer::kSynccheck) || w.failed()) return;
  char others[200];
  const auto first =
      std::min_element(waiting.begin(), waiting.end(), [](Fiber* a, Fiber* b) { return a->rank < b->rank; });
  const Fiber& one = **first;
  if (waiting.size() < w.threads()) {
    unsigned ended = 0;
    while (w.live_lanes(ended / 32) >> (ended % 32) & 1) ++ended;
    const uint3 t = thread_of(w, ended);
    snprintf(
        others, sizeof others, "block: %zu of %u threads have ended before %s, the first of them [%u,%u,%u]",
        w.threads() - waiting.size(), w.threads(), what, t.x, t.y, t.z);
    say_divergent(w, false, one, what, others);
  }
  for (const Fiber* f : waiting) {
    if (f->where.line == one.where.line && strcmp(f->where.file, one.where.file) == 0) continue;
    const bool in_warp = std::any_of(waiting.begin(), waiting.end(), [&](const Fiber* other) {
      return other->rank / 32 == f->rank / 32 && other->where.line != f->where.line;
    });
    snprintf(
        others, sizeof others, "%s: thread [%u,%u,%u] waits at %s:%d", in_warp ? "warp" : "block", f->thread.x,
        f->thread.y, f->thread.z, f->where.file, f->where.line);
    return say_divergent(w, true, one, what, others);
  }
}
inline void check_meeting(const Worker& w, const Meeting& m, unsigned ended) {
  if (!host_sanitizer::is_on(host_sanitizer::kSynccheck) || w.failed()) return;
  const unsigned warp = w.rank / 32, count = std::min(32u, w.threads() - 32 * warp);
  const unsigned missing = m.mask & ended & ~m.arrived & (count == 32 ? ~0u : (1u << count) - 1);
  if (!missing) return;
  const Fiber* const one = m.waiting.empty() ? w.current() : m.waiting.front();
  const uint3 t = thread_of(w, 32 * warp + static_cast<unsigned>(__builtin_ctz(missing)));
  char others[200];
  snprintf(
      others, sizeof others, "warp: the mask 0x%08x names threads that have ended, the first of them [%u,%u,%u]",
      m.mask, t.x, t.y, t.z);
  say_divergent(w, false, *one, "", others);
}

// Memory that is not given back when the process ends, and the process's status.
inline void end_process() {
  if (host_sanitizer::is_on(host_sanitizer::kMemcheck)) {
    const std::lock_guard<std::mutex> lock(given().mutex);
    for (const auto& one : given().all) {
      char text[100];
      snprintf(
          text, sizeof text, "Error: Leaked %zu bytes at %p", one.second.bytes, static_cast<const void*>(one.first));
      fprintf(stderr, "%s:%d: %s\n", one.second.where.file, one.second.where.line, text);
      host_sanitizer::report(
          {host_sanitizer::kMemcheck, true, "", one.second.where.file, one.second.where.line, {}, {}, text}, false);
    }
  }
  host_sanitizer::end_process();
}
inline const int kAtExit = host_sanitizer::settings().tools ? std::atexit(&end_process) : 0;

}  // namespace host_cuda
#pragma GCC visibility pop
