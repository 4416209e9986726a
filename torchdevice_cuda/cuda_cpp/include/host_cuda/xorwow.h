// XORWOW's steps, many at once. A step is linear over bits but for a counter, so 2^k steps are a matrix of 160 x 160
// bits; the next one is its square.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "host_cuda/block.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

using XorwowWords = std::array<uint32_t, 5>;

inline XorwowWords xorwow_step(XorwowWords v) {
  const uint32_t t = v[0] ^ (v[0] >> 2);
  return {v[1], v[2], v[3], v[4], v[4] ^ (v[4] << 4) ^ (t ^ (t << 1))};
}

// What each bit of the state becomes.
struct XorwowSteps {
  std::array<XorwowWords, 160> of;

  XorwowWords operator()(const XorwowWords& v) const {
    XorwowWords made{};
    for (unsigned word = 0; word < 5; ++word)
      for (uint32_t left = v[word]; left; left &= left - 1) {
        const auto& add = of[word * 32 + static_cast<unsigned>(__builtin_ctz(left))];
        for (unsigned i = 0; i < 5; ++i) made[i] ^= add[i];
      }
    return made;
  }
};

constexpr unsigned kXorwowSequence = 67;  // sequences are 2^67 steps apart

// 2^k steps, for each k that a number of 64 bits may ask for, of steps or of sequences.
inline const std::vector<XorwowSteps>& xorwow_powers() {
  static const auto* const made = [] {
    auto* all = new std::vector<XorwowSteps>(kXorwowSequence + 64);
    for (unsigned bit = 0; bit < 160; ++bit) {
      XorwowWords one{};
      one[bit / 32] = 1u << bit % 32;
      (*all)[0].of[bit] = xorwow_step(one);
    }
    for (size_t k = 1; k < all->size(); ++k)
      for (unsigned bit = 0; bit < 160; ++bit) (*all)[k].of[bit] = (*all)[k - 1]((*all)[k - 1].of[bit]);
    return all;
  }();
  return *made;
}
inline XorwowWords xorwow_skip(XorwowWords v, uint64_t n, unsigned power) {
  std::optional<Ours> ours;  // the table is no memory of the program's
  if (worker) ours.emplace(worker->watch);
  const auto& powers = xorwow_powers();
  for (; n; n &= n - 1) v = powers[power + static_cast<unsigned>(__builtin_ctzll(n))](v);
  return v;
}

}  // namespace host_cuda
#pragma GCC visibility pop
