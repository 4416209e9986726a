// Addresses of shared memory, which have 32 bits: the lower ones of a pointer. An object of the block is found by them.
#pragma once

#include "host_cuda/shared.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

// No GPU has as much shared memory in a block.
constexpr uint32_t kLargestShared = 256 << 10;

// An address may lie behind its object: a program computes it before it knows whether it is used.
inline char* find_shared_bytes(uint64_t address) {
  if (address >> 32) return reinterpret_cast<char*>(address);  // a pointer
  Worker& w = *worker;
  const Ours ours(w.watch);
  char* found = dynamic_shared();
  uint32_t nearest = static_cast<uint32_t>(address) - static_cast<uint32_t>(reinterpret_cast<uintptr_t>(found));
  if (!w.launch->shared) nearest = ~0u;
  for (const Extent& one : w.extents) {
    const uint32_t offset =
        static_cast<uint32_t>(address) - static_cast<uint32_t>(reinterpret_cast<uintptr_t>(one.begin));
    if (offset < nearest) {
      nearest = offset;
      found = one.begin;
    }
  }
  if (nearest > kLargestShared)
    w.fail(cudaErrorLaunchFailure, {nullptr, 0}, "0x%x is no address of shared memory", static_cast<unsigned>(address));
  return found + nearest;
}
template <class T>
T* find_shared(uint64_t address) {
  return reinterpret_cast<T*>(find_shared_bytes(address));
}
inline bool is_shared(uint64_t address) {
  Worker& w = *worker;
  const Ours ours(w.watch);
  if (address - reinterpret_cast<uintptr_t>(dynamic_shared()) < w.launch->shared) return true;
  for (const Extent& one : w.extents)
    if (address - reinterpret_cast<uintptr_t>(one.begin) < one.bytes) return true;
  return false;
}

}  // namespace host_cuda
#pragma GCC visibility pop

static inline size_t __cvta_generic_to_shared(const void* p) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(p));
}
static inline void* __cvta_shared_to_generic(size_t address) {
  return host_cuda::find_shared_bytes(address);
}
static inline size_t __cvta_generic_to_global(const void* p) {
  return reinterpret_cast<size_t>(p);
}
static inline void* __cvta_global_to_generic(size_t address) {
  return reinterpret_cast<void*>(address);
}
static inline unsigned __isShared(const void* p) {
  return host_cuda::is_shared(reinterpret_cast<uintptr_t>(p));
}
static inline unsigned __isGlobal(const void* p) {
  return !__isShared(p);
}
