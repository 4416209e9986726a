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
  const Ours ours(worker->watch);
  auto& all = worker->shared;
  if (all.size() <= site) all.resize(site + 1);
  constexpr size_t alignment = alignof(T) > 128 ? alignof(T) : 128;
  const bool is_new = !all[site];
  if (is_new) all[site].reset(new char[sizeof(T) + alignment + 2 * kGuard]);
  const auto address = reinterpret_cast<uintptr_t>(all[site].get()) + kGuard;
  auto* const object = reinterpret_cast<T*>((address + alignment - 1) / alignment * alignment);
  if (is_new) worker->extents.push_back({reinterpret_cast<char*>(object), sizeof(T)});
  worker->watch.shared(site + 1, reinterpret_cast<const char*>(object), sizeof(T));
  return *object;
}
inline char* dynamic_shared() {
  const Ours ours(worker->watch);
  auto* const begin =
      reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(worker->dynamic.get()) + kGuard + 127) / 128 * 128);
  worker->watch.shared(0, begin, worker->launch->shared);
  return begin;
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
