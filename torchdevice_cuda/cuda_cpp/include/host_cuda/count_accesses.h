// What the compiler calls in builds that count: before every access to memory.
#pragma once

#include "host_cuda/block.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

enum class Use { kRead, kWrite, kAtomic };
enum class Order { kNone, kHears, kTells, kBoth };

HOST_CUDA_UNWATCHED inline void used(
    const void* p, size_t bytes, Use use, bool, const void*, Order order = Order::kNone) {
  Worker* const w = worker;
  if (!w || !w->counts || !bytes) return;
  Counts* const counts = w->counts;
  w->counts = nullptr;  // counting uses memory, too
  const bool is_atomic = use == Use::kAtomic && order == Order::kBoth;
  const auto find = [w](const char* at) { return w->allocations.find(at); };
  if (use == Use::kRead || is_atomic || order == Order::kHears) counts->add(p, bytes, false, find);
  if (use == Use::kWrite || is_atomic || order == Order::kTells) counts->add(p, bytes, true, find);
  w->counts = counts;
}
HOST_CUDA_UNWATCHED inline void used_atomically(const void* p, size_t bytes, Order order, int, const void* from) {
  used(p, bytes, Use::kAtomic, true, from, order);
}
inline void fence() {}

// Count arithmetic that the source shows; always true.
HOST_CUDA_UNWATCHED inline bool compute(unsigned operations) {
  if (Worker* const w = worker)
    if (w->counts) w->counts->operations += operations;
  return true;
}

}  // namespace host_cuda
#pragma GCC visibility pop

#include "host_cuda/memory_hooks.h"
