// Accesses of elements in programs that are only counted: they read device memory and write none.
#pragma once
#include <string.h>

#include "memory.h"

// What a program writes to, and reads where it has no memory.
alignas(64) static thread_local char g_scratch[64];

template <class T>
TTC_INLINE T* count_element(Program& program, int site, T* address, bool reads, bool writes) {
  const auto at = (uintptr_t)address;
  const bool is_known = holds(program.seen[site], at, sizeof(T)) || look_up(program, site, at, sizeof(T), true);
  memset(g_scratch, 0, sizeof(T));
  if (!is_known) return (T*)g_scratch;
  const Range& range = program.seen[site];
  const auto find = [&](const char*) { return host_cuda::Counts::Allocation{(const char*)range.first, range.size}; };
  if (reads) program.counts->add(address, sizeof(T), false, find);
  if (writes) program.counts->add(address, sizeof(T), true, find);
  if (!writes) return address;
  memcpy(g_scratch, address, sizeof(T));
  return (T*)g_scratch;
}
template <class T>
TTC_INLINE T* check_read(Program& program, int site, T* address) {
  return count_element(program, site, address, true, false);
}
template <class T>
TTC_INLINE T* check_volatile(Program& program, int site, T* address) {
  return count_element(program, site, address, true, false);
}
template <class T>
TTC_INLINE T* check_write(Program& program, int site, T* address) {
  return count_element(program, site, address, false, true);
}
template <class T>
struct AtomicUse {
  T* const address;
  AtomicUse(Program& program, int site, T* at, bool) : address(count_element(program, site, at, true, true)) {}
};
