// Philox 4x32-10: a counter of four words and a key of two give four words.
#pragma once

#include "cuda_runtime.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

inline uint4 philox_words(uint4 c, uint2 k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * c.x, b = uint64_t{0xCD9E8D57u} * c.z;
    c = make_uint4(
        static_cast<unsigned>(b >> 32) ^ c.y ^ k.x, static_cast<unsigned>(b),
        static_cast<unsigned>(a >> 32) ^ c.w ^ k.y, static_cast<unsigned>(a));
    k.x += 0x9E3779B9u;
    k.y += 0xBB67AE85u;
  }
  return c;
}
inline uint64_t joined(unsigned low, unsigned high) {
  return uint64_t{high} << 32 | low;
}
// The counter is a number of 128 bits: a sequence has the upper half, a place in it the lower.
inline void advance(uint4& c, uint64_t n) {
  const uint64_t low = joined(c.x, c.y) + n;
  const uint64_t high = joined(c.z, c.w) + (low < n);
  c = make_uint4(
      static_cast<unsigned>(low), static_cast<unsigned>(low >> 32), static_cast<unsigned>(high),
      static_cast<unsigned>(high >> 32));
}
inline void advance_sequence(uint4& c, uint64_t n) {
  const uint64_t high = joined(c.z, c.w) + n;
  c.z = static_cast<unsigned>(high);
  c.w = static_cast<unsigned>(high >> 32);
}

}  // namespace host_cuda
#pragma GCC visibility pop
