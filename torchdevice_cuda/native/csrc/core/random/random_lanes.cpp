#include "operators/random_lanes.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace hostdevice {
namespace {

constexpr uint32_t kFactor0 = 0xD2511F53, kFactor1 = 0xCD9E8D57, kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;

constexpr uint32_t high(uint64_t x) {
  return static_cast<uint32_t>(x >> 32);
}
constexpr uint32_t low(uint64_t x) {
  return static_cast<uint32_t>(x);
}

void compute_one_thread(uint64_t seed, uint64_t step, uint64_t thread, uint32_t (&words)[4]) {
  uint32_t x = low(step), y = high(step), z = low(thread), w = high(thread), k0 = low(seed), k1 = high(seed);
  for (int round = 0; round < 10; round++, k0 += kWeyl0, k1 += kWeyl1) {
    const uint64_t p = uint64_t{kFactor0} * x, q = uint64_t{kFactor1} * z;
    x = high(q) ^ y ^ k0;
    y = low(q);
    z = high(p) ^ w ^ k1;
    w = low(p);
  }
  words[0] = x;
  words[1] = y;
  words[2] = z;
  words[3] = w;
}

[[maybe_unused]] void compute_scalar(uint64_t seed, uint64_t step, uint64_t first, int count, Four<uint32_t>& words) {
  for (int i = 0; i < count; i++) {
    uint32_t four[4];
    compute_one_thread(seed, step, first + static_cast<uint64_t>(i), four);
    for (int k = 0; k < 4; k++) words.of[k][i] = four[k];
  }
}

#if defined(__x86_64__) && defined(__GNUC__)
// Compilers emit many shuffles to multiply 32-bit lanes into 64-bit products. Here every word has a 64-bit lane of its
// own. The upper half of a word is never read, so nothing has to clear it.
template <int kWidth>
struct Registers {
  typedef uint64_t Wide __attribute__((vector_size(kWidth * 8)));
  typedef uint32_t Narrow __attribute__((vector_size(kWidth * 4)));
};

#define HOSTDEVICE_PHILOX(name, isa, kWidth, multiply)                                                \
  __attribute__((target(isa))) void name(                                                             \
      uint64_t seed, uint64_t step, uint64_t first, int count, Four<uint32_t>& words) {               \
    using Wide = Registers<kWidth>::Wide;                                                             \
    using Narrow = Registers<kWidth>::Narrow;                                                         \
    const auto store = [&words](int word, int lane, const Wide& of) __attribute__((target(isa))) {    \
      *reinterpret_cast<Narrow*>(words.of[word] + lane) = __builtin_convertvector(of, Narrow);        \
    };                                                                                                \
    Wide threads;                                                                                     \
    for (int i = 0; i < kWidth; i++) threads[i] = low(first) + static_cast<uint64_t>(i);              \
    for (int i = 0; i < count; i += kWidth, threads += kWidth) {                                      \
      Wide x = Wide{} + low(step), y = Wide{} + high(step), z = threads, w = Wide{} + high(first);    \
      uint32_t k0 = low(seed), k1 = high(seed);                                                       \
      _Pragma("GCC unroll 10") for (int round = 0; round < 10; round++, k0 += kWeyl0, k1 += kWeyl1) { \
        const Wide p = multiply(x, Wide{} + kFactor0), q = multiply(z, Wide{} + kFactor1);            \
        x = (q >> 32) ^ y ^ k0;                                                                       \
        y = q;                                                                                        \
        z = (p >> 32) ^ w ^ k1;                                                                       \
        w = p;                                                                                        \
      }                                                                                               \
      store(0, i, x);                                                                                 \
      store(1, i, y);                                                                                 \
      store(2, i, z);                                                                                 \
      store(3, i, w);                                                                                 \
    }                                                                                                 \
  }
#define HOSTDEVICE_MULTIPLY_4(a, b) (Wide) _mm256_mul_epu32((__m256i)(a), (__m256i)(b))
#define HOSTDEVICE_MULTIPLY_8(a, b) (Wide) _mm512_maskz_mul_epu32(0xFF, (__m512i)(a), (__m512i)(b))
HOSTDEVICE_PHILOX(compute_four, "avx2", 4, HOSTDEVICE_MULTIPLY_4)
HOSTDEVICE_PHILOX(compute_eight, "avx512f", 8, HOSTDEVICE_MULTIPLY_8)
#undef HOSTDEVICE_MULTIPLY_4
#undef HOSTDEVICE_MULTIPLY_8
#undef HOSTDEVICE_PHILOX

auto choose_kernel() {
  if (__builtin_cpu_supports("avx512f")) return &compute_eight;
  return __builtin_cpu_supports("avx2") ? &compute_four : &compute_scalar;
}
#else
auto choose_kernel() {
  return &compute_scalar;
}
#endif

}  // namespace

void draw_words(const Philox& from, uint64_t step, uint64_t first, int count, Four<uint32_t>& words) {
  static const auto kernel = choose_kernel();
  kernel(from.seed, from.offset / 4 + step, first, count, words);
}

uint32_t Words::next() {
  if (const uint64_t block = position_ / 4; block != block_) {
    compute_one_thread(seed_, block, thread_, words_);
    block_ = block;
  }
  return words_[position_++ % 4];
}
float Words::unit() {
  return hostdevice::unit(next());
}
float Words::normal() {
  if (has_normal_) {
    has_normal_ = false;
    return normal_;
  }
  const uint32_t x = next(), y = next();
  float first;
  normal_pair(x, y, first, normal_);
  has_normal_ = true;
  return first;
}
double Words::normal_double() {
  if (has_normal_double_) {
    has_normal_double_ = false;
    return normal_double_;
  }
  const uint32_t x = next(), y = next(), z = next(), w = next();
  double first;
  normal_pair(x, y, z, w, first, normal_double_);
  has_normal_double_ = true;
  return first;
}

}  // namespace hostdevice
