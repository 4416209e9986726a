// CUDA's instructions on the two halves or the four bytes of a word.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#pragma GCC visibility push(hidden)
namespace host_cuda {

// What `call` makes of each part; its result is cut to the part's width.
template <class Part, class Call>
unsigned by_part(unsigned a, unsigned b, Call call) {
  constexpr int bits = sizeof(Part) * 8;
  constexpr unsigned mask = (1u << bits) - 1;
  unsigned made = 0;
  for (int i = 0; i < 32; i += bits) {
    const auto x = static_cast<int>(static_cast<Part>(a >> i & mask));
    const auto y = static_cast<int>(static_cast<Part>(b >> i & mask));
    made |= (static_cast<unsigned>(call(x, y)) & mask) << i;
  }
  return made;
}
template <class Part, class Call>
unsigned sum_of_parts(unsigned a, unsigned b, Call call) {
  constexpr int bits = sizeof(Part) * 8;
  unsigned made = 0;
  for (int i = 0; i < 32; i += bits)
    made += static_cast<unsigned>(
        call(static_cast<int>(static_cast<Part>(a >> i)), static_cast<int>(static_cast<Part>(b >> i))));
  return made;
}
template <class Part>
int clamped(int x) {
  const int low = std::numeric_limits<Part>::min(), high = std::numeric_limits<Part>::max();
  return x < low ? low : (x > high ? high : x);
}

}  // namespace host_cuda
#pragma GCC visibility pop

#define HOST_CUDA_PARTS(name, part, expression)                                                         \
  static inline unsigned name(unsigned a, unsigned b) {                                                 \
    return host_cuda::by_part<part>(a, b, [](int x, int y) { return (void)x, (void)y, (expression); }); \
  }
#define HOST_CUDA_PARTS_ONE(name, part, expression)                               \
  static inline unsigned name(unsigned a) {                                       \
    return host_cuda::by_part<part>(a, 0, [](int x, int) { return expression; }); \
  }
// Comparisons give a mask (vcmp) or a one (vset).
#define HOST_CUDA_PARTS_COMPARED(name, n, part, sign)       \
  HOST_CUDA_PARTS(__vcmp##name##n, part, x sign y ? -1 : 0) \
  HOST_CUDA_PARTS(__vset##name##n, part, x sign y ? 1 : 0)
#define HOST_CUDA_SIMD(n, signed_part, unsigned_part)                                                        \
  HOST_CUDA_PARTS(__vadd##n, unsigned_part, x + y)                                                           \
  HOST_CUDA_PARTS(__vaddss##n, signed_part, host_cuda::clamped<signed_part>(x + y))                          \
  HOST_CUDA_PARTS(__vaddus##n, unsigned_part, host_cuda::clamped<unsigned_part>(x + y))                      \
  HOST_CUDA_PARTS(__vsub##n, unsigned_part, x - y)                                                           \
  HOST_CUDA_PARTS(__vsubss##n, signed_part, host_cuda::clamped<signed_part>(x - y))                          \
  HOST_CUDA_PARTS(__vsubus##n, unsigned_part, host_cuda::clamped<unsigned_part>(x - y))                      \
  HOST_CUDA_PARTS(__vmaxs##n, signed_part, x > y ? x : y)                                                    \
  HOST_CUDA_PARTS(__vmaxu##n, unsigned_part, x > y ? x : y)                                                  \
  HOST_CUDA_PARTS(__vmins##n, signed_part, x < y ? x : y)                                                    \
  HOST_CUDA_PARTS(__vminu##n, unsigned_part, x < y ? x : y)                                                  \
  HOST_CUDA_PARTS(__vavgs##n, signed_part, (x + y + (x + y >= 0)) >> 1)                                      \
  HOST_CUDA_PARTS(__vavgu##n, unsigned_part, (x + y + 1) >> 1)                                               \
  HOST_CUDA_PARTS(__vhaddu##n, unsigned_part, (x + y) >> 1)                                                  \
  HOST_CUDA_PARTS(__vabsdiffs##n, signed_part, x > y ? x - y : y - x)                                        \
  HOST_CUDA_PARTS(__vabsdiffu##n, unsigned_part, x > y ? x - y : y - x)                                      \
  HOST_CUDA_PARTS_ONE(__vabs##n, signed_part, x < 0 ? -x : x)                                                \
  HOST_CUDA_PARTS_ONE(__vabsss##n, signed_part, host_cuda::clamped<signed_part>(x < 0 ? -x : x))             \
  HOST_CUDA_PARTS_ONE(__vneg##n, signed_part, -x)                                                            \
  HOST_CUDA_PARTS_ONE(__vnegss##n, signed_part, host_cuda::clamped<signed_part>(-x))                         \
  HOST_CUDA_PARTS_COMPARED(eq, n, unsigned_part, ==)                                                         \
  HOST_CUDA_PARTS_COMPARED(ne, n, unsigned_part, !=)                                                         \
  HOST_CUDA_PARTS_COMPARED(ges, n, signed_part, >=)                                                          \
  HOST_CUDA_PARTS_COMPARED(geu, n, unsigned_part, >=)                                                        \
  HOST_CUDA_PARTS_COMPARED(gts, n, signed_part, >)                                                           \
  HOST_CUDA_PARTS_COMPARED(gtu, n, unsigned_part, >)                                                         \
  HOST_CUDA_PARTS_COMPARED(les, n, signed_part, <=)                                                          \
  HOST_CUDA_PARTS_COMPARED(leu, n, unsigned_part, <=)                                                        \
  HOST_CUDA_PARTS_COMPARED(lts, n, signed_part, <)                                                           \
  HOST_CUDA_PARTS_COMPARED(ltu, n, unsigned_part, <)                                                         \
  static inline unsigned __vsads##n(unsigned a, unsigned b) {                                                \
    return host_cuda::sum_of_parts<signed_part>(a, b, [](int x, int y) { return x > y ? x - y : y - x; });   \
  }                                                                                                          \
  static inline unsigned __vsadu##n(unsigned a, unsigned b) {                                                \
    return host_cuda::sum_of_parts<unsigned_part>(a, b, [](int x, int y) { return x > y ? x - y : y - x; }); \
  }
HOST_CUDA_SIMD(2, int16_t, uint16_t)
HOST_CUDA_SIMD(4, int8_t, uint8_t)
#undef HOST_CUDA_SIMD
#undef HOST_CUDA_PARTS_COMPARED
#undef HOST_CUDA_PARTS_ONE
#undef HOST_CUDA_PARTS

// The greatest or least of two sums or of three numbers, at least 0 with `relu`.
#define HOST_CUDA_DPX(kind, sign)                                   \
  HOST_CUDA_DPX_OF(kind, sign, s32, int)                            \
  HOST_CUDA_DPX_OF(kind, sign, u32, unsigned)                       \
  static inline int __vi##kind##3_s32_relu(int a, int b, int c) {   \
    const int made = __vi##kind##3_s32(a, b, c);                    \
    return made > 0 ? made : 0;                                     \
  }                                                                 \
  static inline int __vi##kind##_s32_relu(int a, int b) {           \
    const int made = a sign b ? a : b;                              \
    return made > 0 ? made : 0;                                     \
  }                                                                 \
  static inline int __viadd##kind##_s32_relu(int a, int b, int c) { \
    const int made = __viadd##kind##_s32(a, b, c);                  \
    return made > 0 ? made : 0;                                     \
  }
#define HOST_CUDA_DPX_OF(kind, sign, suffix, type)                                           \
  static inline type __vi##kind##3_##suffix(type a, type b, type c) {                        \
    const type two = a sign b ? a : b;                                                       \
    return two sign c ? two : c;                                                             \
  }                                                                                          \
  static inline type __viadd##kind##_##suffix(type a, type b, type c) {                      \
    const auto sum = static_cast<type>(static_cast<unsigned>(a) + static_cast<unsigned>(b)); \
    return sum sign c ? sum : c;                                                             \
  }                                                                                          \
  static inline type __vib##kind##_##suffix(type a, type b, bool* first) {                   \
    *first = a == b || a sign b;                                                             \
    return *first ? a : b;                                                                   \
  }
HOST_CUDA_DPX(max, >)
HOST_CUDA_DPX(min, <)
#undef HOST_CUDA_DPX
#undef HOST_CUDA_DPX_OF
