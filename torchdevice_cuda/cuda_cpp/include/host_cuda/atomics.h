// Atomic operations on global and shared memory: of the host's own.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#pragma GCC visibility push(hidden)
namespace host_cuda {

// The order of CUDA's atomic functions. A fence orders what is around them, and checks look for it.
#ifdef HOST_CUDA_CHECKED
constexpr int kAtomicOrder = __ATOMIC_RELAXED, kFailedOrder = __ATOMIC_RELAXED;
#else
constexpr int kAtomicOrder = __ATOMIC_ACQ_REL, kFailedOrder = __ATOMIC_ACQUIRE;
#endif

template <size_t>
struct Word;
template <>
struct Word<1> {
  using type = uint8_t;
};
template <>
struct Word<2> {
  using type = uint16_t;
};
template <>
struct Word<4> {
  using type = uint32_t;
};
template <>
struct Word<8> {
  using type = uint64_t;
};

// Old value; `change` makes the new one of it.
template <class T, class Change>
inline T exchanged(T* address, Change change) {
  using W = typename Word<sizeof(T)>::type;
  auto* word = reinterpret_cast<W*>(address);
  W expected = __atomic_load_n(word, __ATOMIC_RELAXED);
  for (;;) {
    T old;
    std::memcpy(static_cast<void*>(&old), &expected, sizeof old);
    const T made = change(old);
    W wanted;
    std::memcpy(&wanted, static_cast<const void*>(&made), sizeof wanted);
    if (__atomic_compare_exchange_n(word, &expected, wanted, false, kAtomicOrder, __ATOMIC_RELAXED)) return old;
  }
}
template <class T>
using Same = typename std::enable_if<true, T>::type;  // no part in the deduction of T

}  // namespace host_cuda
#pragma GCC visibility pop

template <class T>
static inline T atomicAdd(T* address, host_cuda::Same<T> value) {
  if constexpr (std::is_integral_v<T>)
    return __atomic_fetch_add(address, value, host_cuda::kAtomicOrder);
  else
    return host_cuda::exchanged(address, [&](T old) { return static_cast<T>(old + value); });
}
template <class T>
static inline T atomicSub(T* address, host_cuda::Same<T> value) {
  return __atomic_fetch_sub(address, value, host_cuda::kAtomicOrder);
}
template <class T>
static inline T atomicExch(T* address, host_cuda::Same<T> value) {
  return host_cuda::exchanged(address, [&](T) { return value; });
}
template <class T>
static inline T atomicMin(T* address, host_cuda::Same<T> value) {
  return host_cuda::exchanged(address, [&](T old) { return value < old ? value : old; });
}
template <class T>
static inline T atomicMax(T* address, host_cuda::Same<T> value) {
  return host_cuda::exchanged(address, [&](T old) { return old < value ? value : old; });
}
template <class T>
static inline T atomicAnd(T* address, host_cuda::Same<T> value) {
  return __atomic_fetch_and(address, value, host_cuda::kAtomicOrder);
}
template <class T>
static inline T atomicOr(T* address, host_cuda::Same<T> value) {
  return __atomic_fetch_or(address, value, host_cuda::kAtomicOrder);
}
template <class T>
static inline T atomicXor(T* address, host_cuda::Same<T> value) {
  return __atomic_fetch_xor(address, value, host_cuda::kAtomicOrder);
}
static inline unsigned atomicInc(unsigned* address, unsigned limit) {
  return host_cuda::exchanged(address, [&](unsigned old) { return old >= limit ? 0u : old + 1; });
}
static inline unsigned atomicDec(unsigned* address, unsigned limit) {
  return host_cuda::exchanged(address, [&](unsigned old) { return old == 0 || old > limit ? limit : old - 1; });
}
template <class T>
static inline T atomicCAS(T* address, host_cuda::Same<T> compare, host_cuda::Same<T> value) {
  using W = typename host_cuda::Word<sizeof(T)>::type;
  W expected, wanted;
  std::memcpy(&expected, static_cast<const void*>(&compare), sizeof expected);
  std::memcpy(&wanted, static_cast<const void*>(&value), sizeof wanted);
  __atomic_compare_exchange_n(
      reinterpret_cast<W*>(address), &expected, wanted, false, host_cuda::kAtomicOrder, host_cuda::kFailedOrder);
  T old;
  std::memcpy(static_cast<void*>(&old), &expected, sizeof old);
  return old;
}
#define HOST_CUDA_SCOPED(name)                                          \
  template <class T>                                                    \
  static inline T name##_block(T* address, host_cuda::Same<T> value) {  \
    return name(address, value);                                        \
  }                                                                     \
  template <class T>                                                    \
  static inline T name##_system(T* address, host_cuda::Same<T> value) { \
    return name(address, value);                                        \
  }
HOST_CUDA_SCOPED(atomicAdd)
HOST_CUDA_SCOPED(atomicMin)
HOST_CUDA_SCOPED(atomicMax)
HOST_CUDA_SCOPED(atomicExch)
HOST_CUDA_SCOPED(atomicAnd)
HOST_CUDA_SCOPED(atomicOr)
HOST_CUDA_SCOPED(atomicXor)
HOST_CUDA_SCOPED(atomicSub)
HOST_CUDA_SCOPED(atomicInc)
HOST_CUDA_SCOPED(atomicDec)
#undef HOST_CUDA_SCOPED
template <class T>
static inline T atomicCAS_block(T* address, host_cuda::Same<T> compare, host_cuda::Same<T> value) {
  return atomicCAS(address, compare, value);
}
template <class T>
static inline T atomicCAS_system(T* address, host_cuda::Same<T> compare, host_cuda::Same<T> value) {
  return atomicCAS(address, compare, value);
}
