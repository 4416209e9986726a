// Loops for the instructions of this processor. This file does not depend on PyTorch.
#pragma once

namespace hostdevice {

// Always inlined, because the instruction set that a compiler may use belongs to the caller.
#define HOSTDEVICE_INLINE __attribute__((always_inline)) inline

// Eight numbers in a register, and a choice among those of two registers; iterations of the next loop are independent.
using Eight = float __attribute__((vector_size(32)));
#if defined(__clang__)
#define HOSTDEVICE_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define HOSTDEVICE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
using EightIndices = int __attribute__((vector_size(32)));
#define HOSTDEVICE_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, hostdevice::EightIndices{__VA_ARGS__})
#define HOSTDEVICE_INDEPENDENT _Pragma("GCC ivdep")
#endif

// Functions that are compiled once, for processors with AVX2 and FMA if they are for x86.
#if defined(__x86_64__) && defined(__GNUC__)
#define HOSTDEVICE_WIDE __attribute__((target("avx2,fma"), noinline))
#define HOSTDEVICE_WIDE_INLINE __attribute__((target("avx2,fma"), always_inline)) inline
inline bool runs_wide() {
  static const bool runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return runs;
}
#else
#define HOSTDEVICE_WIDE __attribute__((noinline))
#define HOSTDEVICE_WIDE_INLINE HOSTDEVICE_INLINE
inline bool runs_wide() {
  return true;
}
#endif

// Call `body`, compiled for the instructions that this processor has beyond those the library is compiled for. The
// results are the same.
#if defined(__x86_64__) && defined(__GNUC__)
template <class F>
__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512"), flatten, noinline)) void widest(
    const F& body) {
  body();
}
template <class F>
__attribute__((target("avx2"), flatten, noinline)) void wide(const F& body) {
  body();
}
template <class F>
void vectorized(const F& body) {
  static const bool has_widest = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  static const bool has_wide = __builtin_cpu_supports("avx2");
  if (has_widest)
    widest(body);
  else if (has_wide)
    wide(body);
  else
    body();
}
#else
template <class F>
void vectorized(const F& body) {
  body();
}
#endif

}  // namespace hostdevice
