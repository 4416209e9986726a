// Inverse error functions, norms and integer functions of CUDA's that no C++ library has.
#pragma once

#include "host_cuda/math.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

// Newton's method; near 1 in terms of erfc, which keeps the digits that 1 - y has.
inline double inverse_erf(double y) {
  if (!(y > -1.0 && y < 1.0)) return y == 1.0 ? INFINITY : (y == -1.0 ? -INFINITY : NAN);
  const double rest = 1.0 - std::fabs(y);
  double x = rest < 0.5 ? std::sqrt(-std::log(rest)) : std::fabs(y) * 0.88622692545275801365;
  for (int i = 0; i < 30; ++i) {
    const double error = rest < 0.5 ? rest - std::erfc(x) : std::erf(x) - std::fabs(y);
    x -= error / (1.12837916709551257390 * std::exp(-x * x));
  }
  return std::copysign(x, y);
}
inline double inverse_erfc(double y) {
  if (y >= 0.5 && y <= 1.5) return inverse_erf(1.0 - y);
  if (!(y > 0.0 && y < 2.0)) return y == 0.0 ? INFINITY : (y == 2.0 ? -INFINITY : NAN);
  const double small = y < 1.0 ? y : 2.0 - y;
  double x = std::sqrt(-std::log(small));
  for (int i = 0; i < 30; ++i) x += (std::erfc(x) - small) / (1.12837916709551257390 * std::exp(-x * x));
  return y < 1.0 ? x : -x;
}
template <class T>
T norm_of(int n, const T* values) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += double(values[i]) * double(values[i]);
  return static_cast<T>(std::sqrt(sum));
}

}  // namespace host_cuda
#pragma GCC visibility pop

#define HOST_CUDA_DOUBLE_AND_FLOAT(name, expression) \
  static inline double name(double x) {              \
    return expression;                               \
  }                                                  \
  static inline float name##f(float single) {        \
    const double x = single;                         \
    return static_cast<float>(expression);           \
  }
HOST_CUDA_DOUBLE_AND_FLOAT(erfinv, host_cuda::inverse_erf(x))
HOST_CUDA_DOUBLE_AND_FLOAT(erfcinv, host_cuda::inverse_erfc(x))
HOST_CUDA_DOUBLE_AND_FLOAT(normcdfinv, -1.41421356237309504880 * host_cuda::inverse_erfc(2.0 * x))
#undef HOST_CUDA_DOUBLE_AND_FLOAT
static inline double erfcx(double x) {
  return std::exp(x * x) * std::erfc(x);
}
#define HOST_CUDA_NORMS(type, suffix)                                  \
  static inline type rhypot##suffix(type a, type b) {                  \
    return type(1) / std::hypot(a, b);                                 \
  }                                                                    \
  static inline type rnorm3d##suffix(type a, type b, type c) {         \
    return type(1) / std::sqrt(a * a + b * b + c * c);                 \
  }                                                                    \
  static inline type norm4d##suffix(type a, type b, type c, type d) {  \
    return std::sqrt(a * a + b * b + c * c + d * d);                   \
  }                                                                    \
  static inline type rnorm4d##suffix(type a, type b, type c, type d) { \
    return type(1) / norm4d##suffix(a, b, c, d);                       \
  }                                                                    \
  static inline type norm##suffix(int n, const type* values) {         \
    return host_cuda::norm_of(n, values);                              \
  }                                                                    \
  static inline type rnorm##suffix(int n, const type* values) {        \
    return type(1) / host_cuda::norm_of(n, values);                    \
  }
HOST_CUDA_NORMS(double, )
HOST_CUDA_NORMS(float, f)
#undef HOST_CUDA_NORMS
static inline void sincospi(double x, double* s, double* c) {
  *s = sinpi(x);
  *c = cospi(x);
}
static inline unsigned long long ullmin(unsigned long long a, unsigned long long b) {
  return a < b ? a : b;
}
static inline unsigned long long ullmax(unsigned long long a, unsigned long long b) {
  return a < b ? b : a;
}

static inline long long __mul64hi(long long a, long long b) {
  return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
static inline unsigned __umul24(unsigned a, unsigned b) {
  return (a & 0xffffffu) * (b & 0xffffffu);
}
static inline unsigned __usad(unsigned a, unsigned b, unsigned c) {
  return (a > b ? a - b : b - a) + c;
}
static inline int __hadd(int a, int b) {
  return static_cast<int>((static_cast<long long>(a) + b) >> 1);
}
static inline int __rhadd(int a, int b) {
  return static_cast<int>((static_cast<long long>(a) + b + 1) >> 1);
}
static inline unsigned __uhadd(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<unsigned long long>(a) + b) >> 1);
}
static inline unsigned __urhadd(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<unsigned long long>(a) + b + 1) >> 1);
}
static inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
  return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
static inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
  return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}
// The position of the nth set bit from a base, forwards or backwards; all ones where there is none.
static inline unsigned __fns(unsigned mask, unsigned base, int offset) {
  if (offset == 0) return mask >> base & 1 ? base : ~0u;
  const int step = offset > 0 ? 1 : -1;
  int left = offset > 0 ? offset : -offset;
  for (int i = static_cast<int>(base); i >= 0 && i < 32; i += step)
    if ((mask >> i & 1) && --left == 0) return static_cast<unsigned>(i);
  return ~0u;
}
// Products of four bytes, or of two halves and two bytes, added to a number.
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 4; ++i) c += (a >> (8 * i) & 0xff) * (b >> (8 * i) & 0xff);
  return c;
}
static inline int __dp2a_lo(int a, int b, int c) {
  for (int i = 0; i < 2; ++i) c += static_cast<short>(a >> (16 * i)) * static_cast<signed char>(b >> (8 * i));
  return c;
}
static inline unsigned __dp2a_lo(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 2; ++i) c += (a >> (16 * i) & 0xffff) * (b >> (8 * i) & 0xff);
  return c;
}
static inline int __dp2a_hi(int a, int b, int c) {
  return __dp2a_lo(a, b >> 16, c);
}
static inline unsigned __dp2a_hi(unsigned a, unsigned b, unsigned c) {
  return __dp2a_lo(a, b >> 16, c);
}
