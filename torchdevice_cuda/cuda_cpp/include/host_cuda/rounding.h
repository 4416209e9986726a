// Arithmetic and conversions in a direction of rounding: the processor's own, switched for one operation.
#pragma once

#include <cfenv>

#include "host_cuda/math.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

template <class Call>
auto in_direction(int direction, Call call) {
  const int before = std::fegetround();
  std::fesetround(direction);
  volatile auto made = call();
  std::fesetround(before);
  return static_cast<std::remove_volatile_t<decltype(made)>>(made);
}

}  // namespace host_cuda
#pragma GCC visibility pop

// Operands are volatile, so that nothing is computed before the direction is set.
#define HOST_CUDA_DIRECTED(suffix, direction)                                      \
  HOST_CUDA_DIRECTED_OF(float, f, fmaf, suffix, direction)                         \
  HOST_CUDA_DIRECTED_OF(double, d, fma, suffix, direction)                         \
  static inline float __fmaf_ieee_##suffix(float x, float y, float z) {            \
    return __fmaf_##suffix(x, y, z);                                               \
  }                                                                                \
  HOST_CUDA_CONVERTED(__int2float, float, int, suffix, direction)                  \
  HOST_CUDA_CONVERTED(__uint2float, float, unsigned, suffix, direction)            \
  HOST_CUDA_CONVERTED(__ll2float, float, long long, suffix, direction)             \
  HOST_CUDA_CONVERTED(__ull2float, float, unsigned long long, suffix, direction)   \
  HOST_CUDA_CONVERTED(__ll2double, double, long long, suffix, direction)           \
  HOST_CUDA_CONVERTED(__ull2double, double, unsigned long long, suffix, direction) \
  HOST_CUDA_CONVERTED(__double2float, float, double, suffix, direction)
#define HOST_CUDA_DIRECTED_OF(type, letter, fma_name, suffix, direction)                                      \
  HOST_CUDA_DIRECTED_TWO(type, __##letter##add_##suffix, +, direction)                                        \
  HOST_CUDA_DIRECTED_TWO(type, __##letter##sub_##suffix, -, direction)                                        \
  HOST_CUDA_DIRECTED_TWO(type, __##letter##mul_##suffix, *, direction)                                        \
  HOST_CUDA_DIRECTED_TWO(type, __##letter##div_##suffix, /, direction)                                        \
  static inline type __##letter##rcp_##suffix(type x) {                                                       \
    volatile type one = 1, b = x;                                                                             \
    return host_cuda::in_direction(direction, [&]() -> type { return one / b; });                             \
  }                                                                                                           \
  static inline type __##letter##sqrt_##suffix(type x) {                                                      \
    volatile type a = x;                                                                                      \
    return host_cuda::in_direction(direction, [&]() -> type { return std::sqrt(type(a)); });                  \
  }                                                                                                           \
  static inline type __##fma_name##_##suffix(type x, type y, type z) {                                        \
    volatile type a = x, b = y, c = z;                                                                        \
    return host_cuda::in_direction(direction, [&]() -> type { return std::fma(type(a), type(b), type(c)); }); \
  }
#define HOST_CUDA_DIRECTED_TWO(type, name, sign, direction)                        \
  static inline type name(type x, type y) {                                        \
    volatile type a = x, b = y;                                                    \
    return host_cuda::in_direction(direction, [&]() -> type { return a sign b; }); \
  }
#define HOST_CUDA_CONVERTED(name, to, from, suffix, direction)                             \
  static inline to name##_##suffix(from x) {                                               \
    volatile from a = x;                                                                   \
    return host_cuda::in_direction(direction, [&]() -> to { return static_cast<to>(a); }); \
  }
HOST_CUDA_DIRECTED(rd, FE_DOWNWARD)
HOST_CUDA_DIRECTED(ru, FE_UPWARD)
HOST_CUDA_DIRECTED(rz, FE_TOWARDZERO)
#undef HOST_CUDA_DIRECTED
#undef HOST_CUDA_DIRECTED_OF
#undef HOST_CUDA_DIRECTED_TWO
#undef HOST_CUDA_CONVERTED

static inline float __fmaf_ieee_rn(float x, float y, float z) {
  return std::fma(x, y, z);
}
static inline double __dsub_rn(double x, double y) {
  volatile double r = x - y;
  return r;
}
static inline double __ddiv_rn(double x, double y) {
  return x / y;
}
static inline double __drcp_rn(double x) {
  return 1.0 / x;
}
static inline double __dsqrt_rn(double x) {
  return std::sqrt(x);
}
static inline float __ll2float_rn(long long x) {
  return static_cast<float>(x);
}
static inline float __ull2float_rn(unsigned long long x) {
  return static_cast<float>(x);
}
static inline double __ll2double_rn(long long x) {
  return static_cast<double>(x);
}
static inline double __ull2double_rn(unsigned long long x) {
  return static_cast<double>(x);
}
static inline double __uint2double_rn(unsigned x) {
  return x;
}
static inline int __double2hiint(double x) {
  return static_cast<int>(host_cuda::as_bits<unsigned long long>(x) >> 32);
}
static inline int __double2loint(double x) {
  return static_cast<int>(host_cuda::as_bits<unsigned long long>(x));
}
static inline double __hiloint2double(int high, int low) {
  return host_cuda::as_bits<double>(
      static_cast<unsigned long long>(static_cast<unsigned>(high)) << 32 | static_cast<unsigned>(low));
}
