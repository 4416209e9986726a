// CUDA's mathematics where the host's library has no function of that name.
#pragma once

#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>

using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;

#define HOST_CUDA_MINMAX(result, a_type, b_type)                  \
  static inline constexpr result min(a_type a, b_type b) {        \
    return (result)(b) < (result)(a) ? (result)(b) : (result)(a); \
  }                                                               \
  static inline constexpr result max(a_type a, b_type b) {        \
    return (result)(a) < (result)(b) ? (result)(b) : (result)(a); \
  }
HOST_CUDA_MINMAX(int, int, int)
HOST_CUDA_MINMAX(unsigned, unsigned, unsigned)
HOST_CUDA_MINMAX(unsigned, int, unsigned)
HOST_CUDA_MINMAX(unsigned, unsigned, int)
HOST_CUDA_MINMAX(long, long, long)
HOST_CUDA_MINMAX(unsigned long, unsigned long, unsigned long)
HOST_CUDA_MINMAX(unsigned long, long, unsigned long)
HOST_CUDA_MINMAX(unsigned long, unsigned long, long)
HOST_CUDA_MINMAX(long long, long long, long long)
HOST_CUDA_MINMAX(unsigned long long, unsigned long long, unsigned long long)
HOST_CUDA_MINMAX(unsigned long long, long long, unsigned long long)
HOST_CUDA_MINMAX(unsigned long long, unsigned long long, long long)
HOST_CUDA_MINMAX(long, int, long)
HOST_CUDA_MINMAX(long, long, int)
#undef HOST_CUDA_MINMAX
#define HOST_CUDA_FMINMAX(result, a_type, b_type) \
  static inline result min(a_type a, b_type b) {  \
    return std::fmin(result(a), result(b));       \
  }                                               \
  static inline result max(a_type a, b_type b) {  \
    return std::fmax(result(a), result(b));       \
  }
HOST_CUDA_FMINMAX(float, float, float)
HOST_CUDA_FMINMAX(double, double, double)
HOST_CUDA_FMINMAX(double, float, double)
HOST_CUDA_FMINMAX(double, double, float)
#undef HOST_CUDA_FMINMAX
static inline unsigned umin(unsigned a, unsigned b) {
  return a < b ? a : b;
}
static inline unsigned umax(unsigned a, unsigned b) {
  return a < b ? b : a;
}
// Of CUDA's header; C++'s library has no overloads that would be better.
static inline long long llmin(long long a, long long b) {
  return a < b ? a : b;
}
static inline long long llmax(long long a, long long b) {
  return a < b ? b : a;
}

static inline float rsqrtf(float x) {
  return 1.0f / std::sqrt(x);
}
static inline double rsqrt(double x) {
  return 1.0 / std::sqrt(x);
}
static inline float rsqrt(float x) {
  return rsqrtf(x);
}
static inline float rcbrtf(float x) {
  return 1.0f / std::cbrt(x);
}
static inline double rcbrt(double x) {
  return 1.0 / std::cbrt(x);
}
static inline float sinpif(float x) {
  return static_cast<float>(std::sin(3.14159265358979323846 * std::fmod(double(x), 2.0)));
}
static inline double sinpi(double x) {
  return std::sin(3.14159265358979323846 * std::fmod(x, 2.0));
}
static inline float cospif(float x) {
  return static_cast<float>(std::cos(3.14159265358979323846 * std::fmod(double(x), 2.0)));
}
static inline double cospi(double x) {
  return std::cos(3.14159265358979323846 * std::fmod(x, 2.0));
}
static inline void sincospif(float x, float* s, float* c) {
  *s = sinpif(x);
  *c = cospif(x);
}
static inline float normcdff(float x) {
  return static_cast<float>(0.5 * std::erfc(-double(x) * 0.70710678118654752440));
}
static inline double normcdf(double x) {
  return 0.5 * std::erfc(-x * 0.70710678118654752440);
}
static inline float erfcxf(float x) {
  return static_cast<float>(std::exp(double(x) * x) * std::erfc(double(x)));
}
static inline float norm3df(float a, float b, float c) {
  return std::sqrt(a * a + b * b + c * c);
}
static inline double norm3d(double a, double b, double c) {
  return std::sqrt(a * a + b * b + c * c);
}
static inline float saturate(float x) {
  return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;
}
static inline float __saturatef(float x) {
  return saturate(x);
}

// The fast ones are as exact as the others here. The host's library keeps `__expf` and its like for itself: the
// translator gives those another name.
#define HOST_CUDA_FAST(name, call)    \
  static inline float name(float x) { \
    return call;                      \
  }
HOST_CUDA_FAST(host_cuda_expf, std::exp(x))
HOST_CUDA_FAST(host_cuda_exp10f, std::pow(10.0f, x))
HOST_CUDA_FAST(host_cuda_logf, std::log(x))
HOST_CUDA_FAST(host_cuda_log2f, std::log2(x))
HOST_CUDA_FAST(host_cuda_log10f, std::log10(x))
HOST_CUDA_FAST(host_cuda_sinf, std::sin(x))
HOST_CUDA_FAST(host_cuda_cosf, std::cos(x))
HOST_CUDA_FAST(host_cuda_tanf, std::tan(x))
HOST_CUDA_FAST(host_cuda_tanhf, std::tanh(x))
HOST_CUDA_FAST(__fsqrt_rn, std::sqrt(x))
HOST_CUDA_FAST(__frsqrt_rn, 1.0f / std::sqrt(x))
HOST_CUDA_FAST(__frcp_rn, 1.0f / x)
#undef HOST_CUDA_FAST
static inline void host_cuda_sincosf(float x, float* s, float* c) {
  *s = std::sin(x);
  *c = std::cos(x);
}
static inline float host_cuda_powf(float x, float y) {
  return std::pow(x, y);
}
static inline float __fdividef(float x, float y) {
  return x / y;
}
static inline float fdividef(float x, float y) {
  return x / y;
}
// Products and sums that are not contracted.
static inline float __fmul_rn(float x, float y) {
  volatile float r = x * y;
  return r;
}
static inline float __fadd_rn(float x, float y) {
  volatile float r = x + y;
  return r;
}
static inline float __fsub_rn(float x, float y) {
  volatile float r = x - y;
  return r;
}
static inline float __fdiv_rn(float x, float y) {
  return x / y;
}
static inline float __fmaf_rn(float x, float y, float z) {
  return std::fma(x, y, z);
}
static inline double __dmul_rn(double x, double y) {
  volatile double r = x * y;
  return r;
}
static inline double __dadd_rn(double x, double y) {
  volatile double r = x + y;
  return r;
}
static inline double __fma_rn(double x, double y, double z) {
  return std::fma(x, y, z);
}

namespace host_cuda {
template <class To, class From>
inline To as_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "the same size");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}
// To an integer, as a GPU does: what does not fit becomes the nearest that does.
template <class To, class From>
inline To to_integer(From x) {
  // Of NaN, as the PTX ISA has it.
  if (std::isnan(x)) return sizeof(To) == 8 || sizeof(From) == 8 ? static_cast<To>(1ull << (sizeof(To) * 8 - 1)) : 0;
  const long double low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
  if (static_cast<long double>(x) <= low) return std::numeric_limits<To>::min();
  if (static_cast<long double>(x) >= high) return std::numeric_limits<To>::max();
  return static_cast<To>(x);
}
}  // namespace host_cuda

#define HOST_CUDA_BITS(name, to, from) \
  static inline to name(from x) {      \
    return host_cuda::as_bits<to>(x);  \
  }
HOST_CUDA_BITS(__float_as_int, int, float)
HOST_CUDA_BITS(__float_as_uint, unsigned, float)
HOST_CUDA_BITS(__int_as_float, float, int)
HOST_CUDA_BITS(__uint_as_float, float, unsigned)
HOST_CUDA_BITS(__double_as_longlong, long long, double)
HOST_CUDA_BITS(__longlong_as_double, double, long long)
#undef HOST_CUDA_BITS
#define HOST_CUDA_ROUNDED(name, to, from)                \
  static inline to name##_rn(from x) {                   \
    return host_cuda::to_integer<to>(std::nearbyint(x)); \
  }                                                      \
  static inline to name##_rz(from x) {                   \
    return host_cuda::to_integer<to>(std::trunc(x));     \
  }                                                      \
  static inline to name##_rd(from x) {                   \
    return host_cuda::to_integer<to>(std::floor(x));     \
  }                                                      \
  static inline to name##_ru(from x) {                   \
    return host_cuda::to_integer<to>(std::ceil(x));      \
  }
HOST_CUDA_ROUNDED(__float2int, int, float)
HOST_CUDA_ROUNDED(__float2uint, unsigned, float)
HOST_CUDA_ROUNDED(__float2ll, long long, float)
HOST_CUDA_ROUNDED(__float2ull, unsigned long long, float)
HOST_CUDA_ROUNDED(__double2ull, unsigned long long, double)
HOST_CUDA_ROUNDED(__double2int, int, double)
HOST_CUDA_ROUNDED(__double2uint, unsigned, double)
HOST_CUDA_ROUNDED(__double2ll, long long, double)
#undef HOST_CUDA_ROUNDED
static inline float __int2float_rn(int x) {
  return static_cast<float>(x);
}
static inline float __uint2float_rn(unsigned x) {
  return static_cast<float>(x);
}
static inline double __int2double_rn(int x) {
  return x;
}
static inline float __double2float_rn(double x) {
  return static_cast<float>(x);
}

static inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x) {
  return __builtin_popcountll(x);
}
static inline int __clz(int x) {
  return x ? __builtin_clz(static_cast<unsigned>(x)) : 32;
}
static inline int __clzll(long long x) {
  return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64;
}
static inline int __ffs(int x) {
  return __builtin_ffs(x);
}
static inline int __ffsll(long long x) {
  return __builtin_ffsll(x);
}
static inline unsigned __brev(unsigned x) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i, x >>= 1) r = r << 1 | (x & 1);
  return r;
}
static inline unsigned long long __brevll(unsigned long long x) {
  return static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 |
      __brev(static_cast<unsigned>(x >> 32));
}
static inline int __mulhi(int a, int b) {
  return static_cast<int>(static_cast<long long>(a) * b >> 32);
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
static inline int __mul24(int a, int b) {
  return (a << 8 >> 8) * (b << 8 >> 8);
}
static inline unsigned __sad(int a, int b, unsigned c) {
  return static_cast<unsigned>(a > b ? a - b : b - a) + c;
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
  const unsigned long long both = static_cast<unsigned long long>(b) << 32 | a;
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) r |= static_cast<unsigned>(both >> (8 * (s >> (4 * i) & 7)) & 0xff) << (8 * i);
  return r;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) << (shift & 31) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (shift & 31));
}
static inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) c += static_cast<signed char>(a >> (8 * i)) * static_cast<signed char>(b >> (8 * i));
  return c;
}
