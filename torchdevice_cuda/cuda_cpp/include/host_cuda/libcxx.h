// The names of libcu++ are those of the host's library.
#pragma once

#include <atomic>
#include <functional>
#include <limits>
#include <type_traits>
#include <utility>

#include "cuda_runtime.h"

namespace cuda::std {
using namespace ::std;
#if __cplusplus < 202002L
struct identity {
  template <class T>
  constexpr T&& operator()(T&& value) const noexcept {
    return static_cast<T&&>(value);
  }
};
#endif
}  // namespace cuda::std

#pragma GCC visibility push(hidden)
namespace host_cuda {

// An atomic function of CUDA's is ordered by fences; one of libcu++ by its argument.
inline void order_before(::std::memory_order order) {
  if (worker && order >= ::std::memory_order_release) worker->watch.fence();
}

}  // namespace host_cuda
#pragma GCC visibility pop

namespace cuda {

enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };
template <class T, thread_scope = thread_scope_system>
using atomic = ::std::atomic<T>;
// Operations of an object that is no atomic itself.
template <class T, thread_scope = thread_scope_system>
class atomic_ref {
 public:
  explicit atomic_ref(T& object) : object_(&object) {}
  T load(::std::memory_order = ::std::memory_order_seq_cst) const {
    T value;
    __atomic_load(object_, &value, __ATOMIC_SEQ_CST);
    return value;
  }
  void store(T value, ::std::memory_order = ::std::memory_order_seq_cst) const {
    __atomic_store(object_, &value, __ATOMIC_SEQ_CST);
  }
  T exchange(T value, ::std::memory_order order = ::std::memory_order_seq_cst) const {
    host_cuda::order_before(order);
    return ::atomicExch(object_, value);
  }
  bool compare_exchange_strong(
      T& expected, T value, ::std::memory_order = ::std::memory_order_seq_cst,
      ::std::memory_order = ::std::memory_order_seq_cst) const {
    return __atomic_compare_exchange(object_, &expected, &value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  }
  bool compare_exchange_weak(
      T& expected, T value, ::std::memory_order = ::std::memory_order_seq_cst,
      ::std::memory_order = ::std::memory_order_seq_cst) const {
    return compare_exchange_strong(expected, value);
  }
#define HOST_CUDA_ATOMIC(name, call)                                               \
  T name(T value, ::std::memory_order order = ::std::memory_order_seq_cst) const { \
    host_cuda::order_before(order);                                                \
    return ::call(object_, value);                                                 \
  }
  HOST_CUDA_ATOMIC(fetch_add, atomicAdd)
  HOST_CUDA_ATOMIC(fetch_sub, atomicSub)
  HOST_CUDA_ATOMIC(fetch_and, atomicAnd)
  HOST_CUDA_ATOMIC(fetch_or, atomicOr)
  HOST_CUDA_ATOMIC(fetch_xor, atomicXor)
  HOST_CUDA_ATOMIC(fetch_min, atomicMin)
  HOST_CUDA_ATOMIC(fetch_max, atomicMax)
#undef HOST_CUDA_ATOMIC

 private:
  T* object_;
};
inline void atomic_thread_fence(::std::memory_order order, thread_scope = thread_scope_system) {
  ::std::atomic_thread_fence(order);
}
template <class A, class B>
constexpr ::std::common_type_t<A, B> ceil_div(A a, B b) {
  return static_cast<::std::common_type_t<A, B>>((a + b - 1) / b);
}
template <size_t kAlignment>
struct aligned_size_t {
  size_t value;
  constexpr explicit aligned_size_t(size_t n) : value(n) {}
  constexpr operator size_t() const {
    return value;
  }
};
template <class T = void>
struct maximum {
  template <class U>
  constexpr U operator()(const U& a, const U& b) const {
    return a < b ? b : a;
  }
};
template <class T = void>
struct minimum {
  template <class U>
  constexpr U operator()(const U& a, const U& b) const {
    return b < a ? b : a;
  }
};

}  // namespace cuda
