// Shared memory: objects of the block that runs.
#pragma once

#include "host_cuda/block.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

inline int next_site() {
  static std::atomic<int> sites{0};
  return sites.fetch_add(1);
}
// The object of a block that a `__shared__` declaration names. Its type is the declaration's own.
template <class T>
T& shared_object() {
  static const auto site = static_cast<size_t>(next_site());
  auto& all = worker->shared;
  if (all.size() <= site) all.resize(site + 1);
  constexpr size_t alignment = alignof(T) > 128 ? alignof(T) : 128;
  if (!all[site]) all[site].reset(new char[sizeof(T) + alignment]);
  const auto address = reinterpret_cast<uintptr_t>(all[site].get());
  return *reinterpret_cast<T*>((address + alignment - 1) / alignment * alignment);
}
inline char* dynamic_shared() {
  return reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(worker->dynamic.get()) + 127) / 128 * 128);
}
// `extern __shared__ T name[];` outside of a function.
template <class T>
struct DynamicShared {
  operator T*() const {
    return reinterpret_cast<T*>(dynamic_shared());
  }
  template <class U>
  explicit operator U*() const {
    return reinterpret_cast<U*>(dynamic_shared());
  }
};

}  // namespace host_cuda
#pragma GCC visibility pop
