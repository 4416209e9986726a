// Copies of one thread into shared memory: they are complete when the call returns.
#pragma once
#include "cuda_runtime.h"
#ifdef HOST_CUDA_TRANSLATED
#include <cstring>

static inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0) {
  std::memcpy(to, from, bytes - zeros);
  std::memset(static_cast<char*>(to) + (bytes - zeros), 0, zeros);
}
static inline void __pipeline_commit() {}
static inline void __pipeline_wait_prior(size_t) {}
#endif
