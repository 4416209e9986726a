// What the compiler calls before every access to memory (-fsanitize=thread, without its library): `used`,
// `used_atomically` and `fence` of the header that includes this one.
#pragma once

#include <dlfcn.h>

#include <cstdint>

#define HOST_CUDA_HOOK extern "C" __attribute__((weak, visibility("hidden"), noinline)) HOST_CUDA_UNWATCHED
#define HOST_CUDA_FROM __builtin_return_address(0)
#define HOST_CUDA_ACCESS(name, bytes, kind, aligned)                                         \
  HOST_CUDA_HOOK void __tsan_##name(void* p) {                                               \
    host_cuda::used(p, bytes, host_cuda::Use::kind, aligned && bytes <= 16, HOST_CUDA_FROM); \
  }
// To other blocks, an access to volatile memory is an atomic one.
#define HOST_CUDA_VOLATILE(name, bytes, kind, order)                                                       \
  HOST_CUDA_HOOK void __tsan_volatile_##name(void* p) {                                                    \
    host_cuda::used(p, bytes, host_cuda::Use::kind, bytes <= 16, HOST_CUDA_FROM, host_cuda::Order::order); \
  }
#define HOST_CUDA_ACCESSES(n)                            \
  HOST_CUDA_ACCESS(read##n, n, kRead, true)              \
  HOST_CUDA_ACCESS(write##n, n, kWrite, true)            \
  HOST_CUDA_ACCESS(unaligned_read##n, n, kRead, false)   \
  HOST_CUDA_ACCESS(unaligned_write##n, n, kWrite, false) \
  HOST_CUDA_VOLATILE(read##n, n, kRead, kHears)          \
  HOST_CUDA_VOLATILE(write##n, n, kWrite, kTells)
HOST_CUDA_ACCESSES(1)
HOST_CUDA_ACCESSES(2)
HOST_CUDA_ACCESSES(4)
HOST_CUDA_ACCESSES(8)
HOST_CUDA_ACCESSES(16)
#undef HOST_CUDA_ACCESSES
#undef HOST_CUDA_VOLATILE
#undef HOST_CUDA_ACCESS
HOST_CUDA_HOOK void __tsan_read_range(void* p, unsigned long n) {
  host_cuda::used(p, n, host_cuda::Use::kRead, false, HOST_CUDA_FROM);
}
HOST_CUDA_HOOK void __tsan_write_range(void* p, unsigned long n) {
  host_cuda::used(p, n, host_cuda::Use::kWrite, false, HOST_CUDA_FROM);
}
HOST_CUDA_HOOK void __tsan_init() {}
HOST_CUDA_HOOK void __tsan_func_entry(void*) {}
HOST_CUDA_HOOK void __tsan_func_exit() {}
HOST_CUDA_HOOK void __tsan_vptr_update(void*, void*) {}
HOST_CUDA_HOOK void __tsan_vptr_read(void*) {}
HOST_CUDA_HOOK void __tsan_atomic_thread_fence(int) {
  host_cuda::fence();
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
HOST_CUDA_HOOK void __tsan_atomic_signal_fence(int) {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

// These are called wherever code of this library copies or fills memory: nothing else sees it.
#define HOST_CUDA_GENUINE(name, ...) \
  static const auto genuine = reinterpret_cast<void* (*)(__VA_ARGS__)>(dlsym(RTLD_DEFAULT, #name))
HOST_CUDA_HOOK void* memcpy(void* to, const void* from, size_t n) noexcept {
  HOST_CUDA_GENUINE(memcpy, void*, const void*, size_t);
  if (n) host_cuda::used(from, n, host_cuda::Use::kRead, false, HOST_CUDA_FROM);
  if (n) host_cuda::used(to, n, host_cuda::Use::kWrite, false, HOST_CUDA_FROM);
  return genuine(to, from, n);
}
HOST_CUDA_HOOK void* memmove(void* to, const void* from, size_t n) noexcept {
  HOST_CUDA_GENUINE(memmove, void*, const void*, size_t);
  if (n) host_cuda::used(from, n, host_cuda::Use::kRead, false, HOST_CUDA_FROM);
  if (n) host_cuda::used(to, n, host_cuda::Use::kWrite, false, HOST_CUDA_FROM);
  return genuine(to, from, n);
}
HOST_CUDA_HOOK void* memset(void* to, int value, size_t n) noexcept {
  HOST_CUDA_GENUINE(memset, void*, int, size_t);
  if (n) host_cuda::used(to, n, host_cuda::Use::kWrite, false, HOST_CUDA_FROM);
  return genuine(to, value, n);
}
#undef HOST_CUDA_GENUINE

// Atomics arrive as calls, of which the order is the strongest whatever was asked for.
#define HOST_CUDA_ATOMIC_USE(n, order_of) \
  host_cuda::used_atomically((const void*)p, n / 8, host_cuda::Order::order_of, order, HOST_CUDA_FROM)
#define HOST_CUDA_FETCH(n, name)                                                                     \
  HOST_CUDA_HOOK uint##n##_t __tsan_atomic##n##_##name(volatile void* p, uint##n##_t v, int order) { \
    HOST_CUDA_ATOMIC_USE(n, kBoth);                                                                  \
    return __atomic_##name(static_cast<volatile uint##n##_t*>(p), v, __ATOMIC_SEQ_CST);              \
  }
#define HOST_CUDA_COMPARE(n, name, weak)                                                                     \
  HOST_CUDA_HOOK int __tsan_atomic##n##_##name(volatile void* p, void* old, uint##n##_t v, int order, int) { \
    HOST_CUDA_ATOMIC_USE(n, kBoth);                                                                          \
    return __atomic_compare_exchange_n(                                                                      \
        static_cast<volatile uint##n##_t*>(p), static_cast<uint##n##_t*>(old), v, weak, __ATOMIC_SEQ_CST,    \
        __ATOMIC_SEQ_CST);                                                                                   \
  }
#define HOST_CUDA_ATOMICS(n)                                                                           \
  HOST_CUDA_FETCH(n, fetch_add)                                                                        \
  HOST_CUDA_FETCH(n, fetch_sub)                                                                        \
  HOST_CUDA_FETCH(n, fetch_and)                                                                        \
  HOST_CUDA_FETCH(n, fetch_or)                                                                         \
  HOST_CUDA_FETCH(n, fetch_xor)                                                                        \
  HOST_CUDA_FETCH(n, fetch_nand)                                                                       \
  HOST_CUDA_COMPARE(n, compare_exchange_strong, false)                                                 \
  HOST_CUDA_COMPARE(n, compare_exchange_weak, true)                                                    \
  HOST_CUDA_HOOK uint##n##_t __tsan_atomic##n##_exchange(volatile void* p, uint##n##_t v, int order) { \
    HOST_CUDA_ATOMIC_USE(n, kBoth);                                                                    \
    return __atomic_exchange_n(static_cast<volatile uint##n##_t*>(p), v, __ATOMIC_SEQ_CST);            \
  }                                                                                                    \
  HOST_CUDA_HOOK uint##n##_t __tsan_atomic##n##_load(const volatile void* p, int order) {              \
    HOST_CUDA_ATOMIC_USE(n, kHears);                                                                   \
    return __atomic_load_n(static_cast<const volatile uint##n##_t*>(p), __ATOMIC_SEQ_CST);             \
  }                                                                                                    \
  HOST_CUDA_HOOK void __tsan_atomic##n##_store(volatile void* p, uint##n##_t v, int order) {           \
    HOST_CUDA_ATOMIC_USE(n, kTells);                                                                   \
    __atomic_store_n(static_cast<volatile uint##n##_t*>(p), v, __ATOMIC_SEQ_CST);                      \
  }                                                                                                    \
  HOST_CUDA_HOOK uint##n##_t __tsan_atomic##n##_compare_exchange_val(                                  \
      volatile void* p, uint##n##_t old, uint##n##_t v, int order, int) {                              \
    HOST_CUDA_ATOMIC_USE(n, kBoth);                                                                    \
    __atomic_compare_exchange_n(                                                                       \
        static_cast<volatile uint##n##_t*>(p), &old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);    \
    return old;                                                                                        \
  }
HOST_CUDA_ATOMICS(8)
HOST_CUDA_ATOMICS(16)
HOST_CUDA_ATOMICS(32)
HOST_CUDA_ATOMICS(64)
#undef HOST_CUDA_ATOMICS
#undef HOST_CUDA_COMPARE
#undef HOST_CUDA_FETCH
#undef HOST_CUDA_ATOMIC_USE
#undef HOST_CUDA_FROM
