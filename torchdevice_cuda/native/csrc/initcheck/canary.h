// Memory that nothing has written holds a number that depends on its address. Whatever writes it, a kernel, an
// operator or a copy, replaces the number, so nothing has to be told of writes.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#pragma GCC visibility push(hidden)
namespace host_sanitizer {

// Four bytes at an address divisible by four. As numbers of any type of two, four or eight bytes they are rare: of
// floating-point types mostly signaling NaNs. sanitizer/canary.py computes the same.
inline uint32_t canary_of(uintptr_t at) {
  const uint64_t mixed = (static_cast<uint64_t>(at) >> 2) * 0x9e3779b97f4a7c15u;
  return 0x7fa00000u | static_cast<uint32_t>(mixed >> 43);
}
__attribute__((no_sanitize("thread"))) inline bool holds_canary(uintptr_t at) {
  const uint32_t expected = canary_of(at);
  uint32_t held;
  __builtin_memcpy(&held, reinterpret_cast<const void*>(at), 4);
  return held == expected;
}
// `p` is divisible by four.
inline void fill_with_canaries(char* p, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 4) {
    const uint32_t value = canary_of(reinterpret_cast<uintptr_t>(p) + i);
    memcpy(p + i, &value, bytes - i < 4 ? bytes - i : 4);
  }
}

// Four bytes alone that look unwritten may be a number of the program's. Two in a row are taken for unwritten, and
// so are two places that one instruction reads.
struct Suspicion {
  uintptr_t at = 0;
};
// Whether a read of `n` bytes is of memory that nothing has written.
__attribute__((no_sanitize("thread"))) inline bool is_unwritten(const char* p, size_t n, Suspicion& of_instruction) {
  const auto begin = reinterpret_cast<uintptr_t>(p) & ~uintptr_t{3};
  for (uintptr_t at = begin; at < reinterpret_cast<uintptr_t>(p) + n; at += 4) {
    if (!holds_canary(at)) continue;
    // Words beside it may be another allocation's, but not of another page.
    if ((at & 4095) != 0 && holds_canary(at - 4)) return true;
    if ((at & 4095) != 4092 && holds_canary(at + 4)) return true;
    if (of_instruction.at && of_instruction.at != at) return true;
    of_instruction.at = at;
  }
  return false;
}

}  // namespace host_sanitizer
#pragma GCC visibility pop
