// cuRAND in kernels: Philox 4x32-10 and XORWOW. Integers and uniform numbers have a GPU's bits; normal ones differ in
// the last places, since a GPU takes its quick sine.
#pragma once

#include <cmath>

#include "cuda_runtime.h"
#include "host_cuda/philox.h"
#include "host_cuda/xorwow.h"

#define CURAND_2POW32_INV 2.3283064e-10f
#define CURAND_2POW32_INV_DOUBLE 2.3283064365386963e-10
#define CURAND_2POW53_INV_DOUBLE 1.1102230246251565e-16

struct curandStatePhilox4_32_10 {
  uint4 ctr, output;
  uint2 key;
  unsigned STATE;
  int boxmuller_flag, boxmuller_flag_double;
  float boxmuller_extra;
  double boxmuller_extra_double;
};
struct curandStateXORWOW {
  unsigned d, v[5];
  int boxmuller_flag, boxmuller_flag_double;
  float boxmuller_extra;
  double boxmuller_extra_double;
};
typedef struct curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;
typedef struct curandStateXORWOW curandStateXORWOW_t;
typedef struct curandStateXORWOW curandState_t;
typedef struct curandStateXORWOW curandState;

// ------------------------------------------------------------- Philox
static inline void skipahead(unsigned long long n, curandStatePhilox4_32_10_t* state) {
  state->STATE += static_cast<unsigned>(n & 3);
  n /= 4;
  if (state->STATE > 3) {
    ++n;
    state->STATE -= 4;
  }
  host_cuda::advance(state->ctr, n);
  state->output = host_cuda::philox_words(state->ctr, state->key);
}
static inline void skipahead_sequence(unsigned long long n, curandStatePhilox4_32_10_t* state) {
  host_cuda::advance_sequence(state->ctr, n);
  state->output = host_cuda::philox_words(state->ctr, state->key);
}
static inline void curand_init(
    unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
    curandStatePhilox4_32_10_t* state) {
  *state = {};
  state->key = make_uint2(static_cast<unsigned>(seed), static_cast<unsigned>(seed >> 32));
  host_cuda::advance_sequence(state->ctr, subsequence);
  skipahead(offset, state);
}
static inline unsigned curand(curandStatePhilox4_32_10_t* state) {
  const unsigned words[4] = {state->output.x, state->output.y, state->output.z, state->output.w};
  const unsigned drawn = words[state->STATE++];
  if (state->STATE == 4) {
    host_cuda::advance(state->ctr, 1);
    state->output = host_cuda::philox_words(state->ctr, state->key);
    state->STATE = 0;
  }
  return drawn;
}
static inline uint4 curand4(curandStatePhilox4_32_10_t* state) {
  const uint4 old = state->output;
  host_cuda::advance(state->ctr, 1);
  state->output = host_cuda::philox_words(state->ctr, state->key);
  const uint4 next = state->output;
  const unsigned words[8] = {old.x, old.y, old.z, old.w, next.x, next.y, next.z, next.w};
  const unsigned* const from = words + state->STATE;
  return make_uint4(from[0], from[1], from[2], from[3]);
}

// ------------------------------------------------------------- XORWOW
#pragma GCC visibility push(hidden)
namespace host_cuda {

inline void xorwow_advance(curandStateXORWOW_t* state, uint64_t n, unsigned power) {
  const auto v = state->v;
  const XorwowWords made = xorwow_skip({v[0], v[1], v[2], v[3], v[4]}, n, power);
  for (unsigned i = 0; i < 5; ++i) v[i] = made[i];
}

}  // namespace host_cuda
#pragma GCC visibility pop

static inline void skipahead(unsigned long long n, curandStateXORWOW_t* state) {
  host_cuda::xorwow_advance(state, n, 0);
  state->d += 362437u * static_cast<unsigned>(n);
}
static inline void skipahead_sequence(unsigned long long n, curandStateXORWOW_t* state) {
  host_cuda::xorwow_advance(state, n, host_cuda::kXorwowSequence);
}
static inline void curand_init(
    unsigned long long seed, unsigned long long subsequence, unsigned long long offset, curandStateXORWOW_t* state) {
  const unsigned low = 1099087573u * (static_cast<unsigned>(seed) ^ 0xaad26b49u);
  const unsigned high = 2591861531u * (static_cast<unsigned>(seed >> 32) ^ 0xf7dcefddu);
  *state = {};
  state->d = 6615241u + high + low;
  const unsigned begin[5] = {123456789u + low, 362436069u ^ low, 521288629u + high, 88675123u ^ high, 5783321u + low};
  for (int i = 0; i < 5; ++i) state->v[i] = begin[i];
  skipahead_sequence(subsequence, state);
  skipahead(offset, state);
}
static inline unsigned curand(curandStateXORWOW_t* state) {
  const auto v = state->v;
  const auto made = host_cuda::xorwow_step({v[0], v[1], v[2], v[3], v[4]});
  for (unsigned i = 0; i < 5; ++i) v[i] = made[i];
  state->d += 362437u;
  return v[4] + state->d;
}

// ------------------------------------------------------------- distributions
#pragma GCC visibility push(hidden)
namespace host_cuda {

constexpr int kNormal = 1, kLogNormal = 2;  // what a state holds over of a pair

inline float uniform_of(unsigned x) {
  return static_cast<float>(x) * CURAND_2POW32_INV + (CURAND_2POW32_INV / 2.0f);
}
inline double uniform_double_of(unsigned x, unsigned y) {
  const uint64_t bits = uint64_t{x} ^ uint64_t { y } << 21;
  return static_cast<double>(bits) * CURAND_2POW53_INV_DOUBLE + CURAND_2POW53_INV_DOUBLE / 2.0;
}
inline float2 normal_pair(unsigned x, unsigned y) {
  constexpr float turn = CURAND_2POW32_INV * 6.2831855f;
  const float u = uniform_of(x), v = static_cast<float>(y) * turn + turn / 2.0f, s = sqrtf(-2.0f * logf(u));
  return make_float2(sinf(v) * s, cosf(v) * s);
}
inline double2 normal_pair_double(unsigned x0, unsigned x1, unsigned y0, unsigned y1) {
  const uint64_t bits = uint64_t{y0} ^ uint64_t { y1 } << 21;
  const double u = uniform_double_of(x0, x1);
  const double v = static_cast<double>(bits) * (CURAND_2POW53_INV_DOUBLE * 2.0) + CURAND_2POW53_INV_DOUBLE;
  const double s = sqrt(-2.0 * log(u)), angle = v * 3.141592653589793;
  return make_double2(sin(angle) * s, cos(angle) * s);
}
// One of a pair; the other is held over for the next call of the same kind.
template <class Flag, class Extra, class Draw>
Extra one_of_pair(Flag& flag, Extra& extra, Flag kind, Draw draw) {
  if (flag == kind) {
    flag = 0;
    return extra;
  }
  const auto pair = draw();
  extra = pair.y;
  flag = kind;
  return pair.x;
}

}  // namespace host_cuda
#pragma GCC visibility pop

template <class State>
static inline float curand_uniform(State* state) {
  return host_cuda::uniform_of(curand(state));
}
// Of Philox a number of 53 bits has 32 random ones: one word is drawn for it.
static inline double curand_uniform_double(curandStatePhilox4_32_10_t* state) {
  return curand(state) * CURAND_2POW32_INV_DOUBLE + CURAND_2POW32_INV_DOUBLE;
}
static inline double curand_uniform_double(curandStateXORWOW_t* state) {
  const unsigned x = curand(state), y = curand(state);
  return host_cuda::uniform_double_of(x, y);
}
template <class State>
static inline float2 curand_normal2(State* state) {
  const unsigned x = curand(state), y = curand(state);
  return host_cuda::normal_pair(x, y);
}
template <class State>
static inline float curand_normal(State* state) {
  return host_cuda::one_of_pair(
      state->boxmuller_flag, state->boxmuller_extra, host_cuda::kNormal, [&] { return curand_normal2(state); });
}
static inline double2 curand_normal2_double(curandStatePhilox4_32_10_t* state) {
  const uint4 x = curand4(state);
  return host_cuda::normal_pair_double(x.x, x.y, x.z, x.w);
}
static inline double2 curand_normal2_double(curandStateXORWOW_t* state) {
  const unsigned x0 = curand(state), x1 = curand(state), y0 = curand(state), y1 = curand(state);
  return host_cuda::normal_pair_double(x0, x1, y0, y1);
}
template <class State>
static inline double curand_normal_double(State* state) {
  return host_cuda::one_of_pair(state->boxmuller_flag_double, state->boxmuller_extra_double, host_cuda::kNormal, [&] {
    return curand_normal2_double(state);
  });
}
template <class State>
static inline float2 curand_log_normal2(State* state, float mean, float deviation) {
  const float2 n = curand_normal2(state);
  return make_float2(expf(mean + deviation * n.x), expf(mean + deviation * n.y));
}
template <class State>
static inline float curand_log_normal(State* state, float mean, float deviation) {
  return host_cuda::one_of_pair(state->boxmuller_flag, state->boxmuller_extra, host_cuda::kLogNormal, [&] {
    return curand_log_normal2(state, mean, deviation);
  });
}

static inline float4 curand_uniform4(curandStatePhilox4_32_10_t* state) {
  const uint4 x = curand4(state);
  using host_cuda::uniform_of;
  return make_float4(uniform_of(x.x), uniform_of(x.y), uniform_of(x.z), uniform_of(x.w));
}
static inline float4 curand_normal4(curandStatePhilox4_32_10_t* state) {
  const uint4 x = curand4(state);
  const float2 a = host_cuda::normal_pair(x.x, x.y), b = host_cuda::normal_pair(x.z, x.w);
  return make_float4(a.x, a.y, b.x, b.y);
}
static inline double2 curand_uniform2_double(curandStatePhilox4_32_10_t* state) {
  const uint4 x = curand4(state);
  return make_double2(host_cuda::uniform_double_of(x.x, x.y), host_cuda::uniform_double_of(x.z, x.w));
}
