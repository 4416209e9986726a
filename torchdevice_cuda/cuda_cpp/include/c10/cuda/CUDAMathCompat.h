#pragma once
#include <cuda_runtime.h>

#include <cmath>

namespace c10::cuda::compat {
inline namespace on_host {
#define HOST_CUDA_ONE(name)              \
  template <class T>                     \
  inline T name(T x) {                   \
    return static_cast<T>(std::name(x)); \
  }
#define HOST_CUDA_TWO(name)                 \
  template <class T>                        \
  inline T name(T x, T y) {                 \
    return static_cast<T>(std::name(x, y)); \
  }
HOST_CUDA_ONE(abs)
HOST_CUDA_ONE(exp)
HOST_CUDA_ONE(ceil)
HOST_CUDA_ONE(floor)
HOST_CUDA_ONE(log)
HOST_CUDA_ONE(log1p)
HOST_CUDA_ONE(sqrt)
HOST_CUDA_ONE(sin)
HOST_CUDA_ONE(cos)
HOST_CUDA_ONE(tan)
HOST_CUDA_ONE(tanh)
HOST_CUDA_ONE(erf)
HOST_CUDA_ONE(round)
HOST_CUDA_TWO(copysign)
HOST_CUDA_TWO(pow)
#undef HOST_CUDA_ONE
#undef HOST_CUDA_TWO
template <class T>
inline T max(T a, T b) {
  return a < b ? b : a;
}
template <class T>
inline T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
inline T div(T a, T b) {
  return a / b;
}
inline float rsqrt(float x) {
  return 1.0f / std::sqrt(x);
}
inline double rsqrt(double x) {
  return 1.0 / std::sqrt(x);
}
inline float normcdf(float x) {
  return 0.5f * std::erfc(-x * 0.70710678f);
}
}  // namespace on_host
}  // namespace c10::cuda::compat
