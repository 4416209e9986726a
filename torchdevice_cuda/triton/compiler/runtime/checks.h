// Accesses of elements under --sanitize: each is checked and noted.
#pragma once
#include <set>
#include <tuple>

#include "host_sanitizer/canary.h"
#include "host_sanitizer/findings.h"
#include "memory.h"

using host_sanitizer::Kind;

TTC_COLD static void say_finding(Program& program, host_sanitizer::Tool tool, int site, const char* text) {
  const auto* const index = (const unsigned*)program.index;
  host_sanitizer::report(
      {tool, true, KERNEL, PLACES[site].file, PLACES[site].line, {index[0], index[1], index[2]}, {0, 0, 0}, text});
}
static const char* name_kind(Kind kind) {
  return kind == Kind::kRead ? "Read" : kind == Kind::kWrite ? "Write" : "Atomic";
}
// Returns true once for each pair of places.
TTC_COLD static bool is_new(int first, int now, int kind) {
  static std::mutex mutex;
  static std::set<std::tuple<int, int, int>> said;
  const std::lock_guard<std::mutex> lock(mutex);
  return said.insert({first < now ? first : now, first < now ? now : first, kind}).second;
}

TTC_COLD static void say_invalid(
    Program& program, int site, Kind kind, uintptr_t at, size_t bytes, bool is_misaligned) {
  const char* const verb = kind == Kind::kRead ? "read" : kind == Kind::kWrite ? "write" : "atomic";
  const Table* const table = program.launch.table;
  const Range* near = nullptr;
  for (int64_t i = 0; i < table->count && table->ranges[i].first <= at; i++) near = table->ranges + i;
  char text[300], distance[120] = "";
  if (near && at >= near->first + near->size)
    snprintf(
        distance, sizeof distance, " and is %zu bytes after the nearest allocation at 0x%zx of size %zu bytes",
        (size_t)(at - near->first - near->size + 1), (size_t)near->first, (size_t)near->size);
  snprintf(
      text, sizeof text, "Invalid __global__ %s of size %zu bytes: access to 0x%zx is %s%s", verb, bytes, (size_t)at,
      is_misaligned ? "misaligned" : "out of bounds", distance);
  say_finding(program, host_sanitizer::kMemcheck, site, text);
  fail(program, is_misaligned ? MISALIGNED : BAD_ADDRESS, site, at);
}
TTC_COLD static void check_written(Program& program, int site, uintptr_t at, size_t bytes) {
  static std::mutex mutex;
  static std::unordered_map<int, host_sanitizer::Suspicion> suspicions;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!host_sanitizer::is_unwritten((const char*)at, bytes, suspicions[site])) return;
  }
  if (!is_new(site, site, 1)) return;
  char text[120];
  snprintf(
      text, sizeof text, "Error: Uninitialized __global__ memory read of size %zu bytes at 0x%zx", bytes, (size_t)at);
  say_finding(program, host_sanitizer::kInitcheck, site, text);
}
// Notes the access of a program. A program is a block: what its own threads do is Triton's affair.
TTC_COLD static void note(Program& program, int site, uintptr_t at, size_t bytes, Kind kind, bool hears, bool tells) {
  auto& races = host_sanitizer::Races::get();
  host_sanitizer::Use use, found;
  use.kind = kind, use.from = site;
  bool conflicts = false;
  uint32_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(races.mutex);
    conflicts = races.use(program.block, at, bytes, use, found, [](const auto&, const auto&) { return true; });
    if (conflicts) number = races.moment(found).block;
    if (tells) races.fence(program.block);
    if (hears || tells) races.signal(program.block, at, hears, tells);
  }
  if (!conflicts || !is_new(found.from, site, 0)) return;
  const uint32_t x = program.launch.grid[0], y = program.launch.grid[1];
  char text[600];
  snprintf(
      text, sizeof text,
      "Error: Race reported between %s access and %s access by block [%u,%u,%u] at %s:%d, at "
      "__global__ 0x%zx",
      name_kind(kind), name_kind(found.kind), number % x, number / x % y, number / x / y, PLACES[found.from].file,
      PLACES[found.from].line, (size_t)at);
  say_finding(program, host_sanitizer::kRacecheck, site, text);
}

static const unsigned g_tools = host_sanitizer::settings().tools;

template <class T>
TTC_INLINE T* check_element(Program& program, int site, T* address, Kind kind) {
  const auto at = (uintptr_t)address;
  if (g_tools & host_sanitizer::kMemcheck) {
    if (at % sizeof(T)) say_invalid(program, site, kind, at, sizeof(T), true);
    if (!holds(program.seen[site], at, sizeof(T)) && !look_up(program, site, at, sizeof(T), true))
      say_invalid(program, site, kind, at, sizeof(T), false);
  }
  check(program, site, address);
  if ((g_tools & host_sanitizer::kInitcheck) && kind != Kind::kWrite &&
      host_sanitizer::holds_canary(at & ~(uintptr_t)3))
    check_written(program, site, at, sizeof(T));
  return address;
}
template <class T>
TTC_INLINE T* check_plain(Program& program, int site, T* address, Kind kind, bool is_volatile = false) {
  check_element(program, site, address, kind);
  if (g_tools & host_sanitizer::kRacecheck)
    note(program, site, (uintptr_t)address, sizeof(T), is_volatile ? Kind::kAtomic : kind, is_volatile, false);
  return address;
}
template <class T>
TTC_INLINE T* check_read(Program& program, int site, T* address) {
  return check_plain(program, site, address, Kind::kRead);
}
template <class T>
TTC_INLINE T* check_volatile(Program& program, int site, T* address) {
  return check_plain(program, site, address, Kind::kRead, true);
}
template <class T>
TTC_INLINE T* check_write(Program& program, int site, T* address) {
  return check_plain(program, site, address, Kind::kWrite);
}

// An atomic operation, which happens while this lives: it tells before, and hears after.
template <class T>
struct AtomicUse {
  Program& program;
  T* const address;
  AtomicUse(Program& of, int site, T* at, bool tells)
      : program(of), address(check_element(of, site, at, Kind::kAtomic)) {
    if (g_tools & host_sanitizer::kRacecheck)
      note(program, site, (uintptr_t)address, sizeof(T), Kind::kAtomic, false, tells);
  }
  ~AtomicUse() {
    if (!(g_tools & host_sanitizer::kRacecheck)) return;
    auto& races = host_sanitizer::Races::get();
    const std::lock_guard<std::mutex> lock(races.mutex);
    races.signal(program.block, (uintptr_t)address, true, false);
  }
};
