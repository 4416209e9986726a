// CUDA's generator for many threads at once: Philox4x32-10, and cuRAND's conversions of its words.
//
// A thread of a launch evaluates Philox with the seed as the key and (step, thread) as the counter, which gives four
// 32-bit words. Lanes are neighboring threads. This file does not depend on PyTorch.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "operators/instruction_sets.h"
#include "runtime/philox.h"

namespace hostdevice {

// Threads that are computed at a time: their words fit into the nearest cache.
inline constexpr int kLanes = 512;

// Four words of each lane, or values computed from them.
template <class T>
struct Four {
  alignas(64) T of[4][kLanes];
};

// Compute the words that `count` threads, from `first` on, read at one step. `first` is a multiple of kLanes.
void draw_words(const Philox& from, uint64_t step, uint64_t first, int count, Four<uint32_t>& words);

// Reads the words of one thread, as cuRAND's functions for single numbers do.
class Words {
 public:
  Words(const Philox& from, uint64_t thread) : seed_(from.seed), thread_(thread), position_(from.offset) {}

  uint32_t next();
  // (0, 1]
  float unit();
  // Normal numbers come in pairs: the second of a pair is kept for the next call.
  float normal();
  double normal_double();

 private:
  uint64_t seed_, thread_, position_, block_ = ~uint64_t{0};
  uint32_t words_[4] = {};
  bool has_normal_ = false, has_normal_double_ = false;
  float normal_ = 0;
  double normal_double_ = 0;
};

// Return a * b + c rounded once, as a GPU does. The product of two floats is exact in double; the sum is rounded twice
// only in theory (one in half a billion), and this is fast on every processor.
HOSTDEVICE_INLINE float fused(float a, float b, float c) {
  return static_cast<float>(static_cast<double>(a) * static_cast<double>(b) + static_cast<double>(c));
}

// ---- cuRAND's distributions ----------------------------------------------------------------------------------------

inline constexpr float kTwoToMinus32 = 0x1p-32F;
inline constexpr float kTwoPiToMinus32 = kTwoToMinus32 * 6.2831855F;
inline constexpr double kTwoToMinus53 = 0x1p-53;

// (0, 1]
HOSTDEVICE_INLINE float unit(uint32_t x) {
  return static_cast<float>(x) * kTwoToMinus32 + kTwoToMinus32 / 2;
}
HOSTDEVICE_INLINE double unit(uint32_t x, uint32_t y) {
  const uint64_t bits = uint64_t{x} ^ (uint64_t{y} << 21);
  return static_cast<double>(bits) * kTwoToMinus53 + kTwoToMinus53 / 2;
}

// Return the natural logarithm of a positive normal number: 2 atanh((m - 1) / (m + 1)) plus the exponent's share, where
// m is within a factor of sqrt(2) of 1.
HOSTDEVICE_INLINE float logarithm(float x) {
  int32_t bits;
  std::memcpy(&bits, &x, 4);
  const int32_t exponent = (bits - 0x3F3504F3) >> 23;
  bits -= exponent * (1 << 23);
  float m;
  std::memcpy(&m, &bits, 4);
  const float s = (m - 1) / (m + 1), t = s * s;
  const float series = t * (1.0F / 3 + t * (1.0F / 5 + t * (1.0F / 7 + t * (1.0F / 9 + t / 11))));
  const float e = static_cast<float>(exponent);
  return e * 0.693145752F + (2 * s + (2 * s * series + e * 1.42860677e-06F));
}

// Compute sine and cosine of angles from 0 to 2 pi: Taylor series of the difference from the nearest quarter turn.
HOSTDEVICE_INLINE void sine_cosine(float angle, float& sine, float& cosine) {
  const int32_t quarter = static_cast<int32_t>(angle * 0.63661975F + 0.5F);
  const float turns = static_cast<float>(quarter);
  // Pi / 2 in three parts; small multiples of the first two are exact.
  const float r = ((angle - turns * 1.5703125F) - turns * 4.83751297e-04F) - turns * 7.54978942e-08F;
  const float t = r * r;
  const float s = r + r * t * (-1.0F / 6 + t * (1.0F / 120 + t * (-1.0F / 5040 + t / 362880)));
  const float c = 1 + t * (-0.5F + t * (1.0F / 24 + t * (-1.0F / 720 + t * (1.0F / 40320 - t / 3628800))));
  const float a = quarter & 1 ? c : s, b = quarter & 1 ? s : c;
  sine = quarter & 2 ? -a : a;
  cosine = (quarter + 1) & 2 ? -b : b;
}

// Compute two normal numbers from two words, or from four.
HOSTDEVICE_INLINE void normal_pair(uint32_t x, uint32_t y, float& first, float& second) {
  const float angle = fused(static_cast<float>(y), kTwoPiToMinus32, kTwoPiToMinus32 / 2);
  const float radius = std::sqrt(-2 * logarithm(unit(x)));
  float sine, cosine;
  sine_cosine(angle, sine, cosine);
  first = sine * radius;
  second = cosine * radius;
}
inline void normal_pair(uint32_t x, uint32_t y, uint32_t z, uint32_t w, double& first, double& second) {
  const double radius = std::sqrt(-2 * std::log(unit(x, y)));
  const double angle = 2 * unit(z, w) * 3.14159265358979323846;
  first = std::sin(angle) * radius;
  second = std::cos(angle) * radius;
}

}  // namespace hostdevice
