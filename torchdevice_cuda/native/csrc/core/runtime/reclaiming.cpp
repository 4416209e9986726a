// Allocation when no free block fits: which other block is used, which memory is released to the system first, and the
// error if that does not suffice.
#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "runtime/activities.h"
#include "runtime/device.h"
#include "runtime/device_memory.h"
#include "runtime/expandable.h"
#include "runtime/failure.h"
#include "runtime/host.h"
#include "runtime/observer.h"
#include "runtime/published.h"
#include "runtime/streams.h"

namespace hostdevice {

Pool::Free::iterator DeviceMemory::choose_free_block(Pool& pool, Pool::Free::iterator it, size_t size) const {
  const auto stream = (*it)->stream;
  const auto is_other = [&](Pool::Free::iterator i) { return i == pool.free.end() || (*i)->stream != stream; };
  if ((*it)->expandable && options_.expandable) {
    // A block at the end of an expandable segment counts with the size that it can grow to; prefer smaller blocks.
    const auto room = [](const Block* b) { return b->size + (b->next && !b->next->mapped ? b->next->size : 0); };
    for (auto next = std::next(it); (*it)->expandable && !is_other(next) && room(*next) < room(*it);) it = next++;
  } else {
    // Expandable segments were turned off: do not use their memory for new requests.
    while (!is_other(it) && (*it)->expandable) ++it;
    if (is_other(it)) return pool.free.end();
  }
  if (size < options_.max_split && (*it)->size >= options_.max_split) return pool.free.end();
  if (size >= options_.max_split && (*it)->size - size >= options_.max_rounding) return pool.free.end();
  return it;
}

Block* DeviceMemory::allocate_new(
    Pool& pool, size_t size, size_t bytes, c10::StreamId stream, Pool::Free::node_type& node, Lock& lock,
    const Context& context) {
  check_before_launch(index_);
  const auto prepare_release = [&] {
    if (C10_LIKELY(!is_observed())) return;
    lock.unlock();
    observe([&](StreamObserver& o) { o.begin_release(index_); });
    lock.lock();
  };
  if (is_garbage_collecting()) {
    prepare_release();
    garbage_collect(context);
  }
  const size_t segment = options_.segment_size(size);
  if (is_rejected(segment)) {
    rejections_++;
    reject(bytes, lock);
  }
  if (auto* b = new_segment(pool, segment, size, stream, false, context)) return b;
  if (auto* b = take_from_oom_pools(pool, size, stream, node)) return b;
  prepare_release();
  if (release_oversize_blocks(pool, size, stream, context))
    if (auto* b = new_segment(pool, segment, size, stream, false, context)) return b;
  release_cached({0, 0}, context);
  if (auto* b = new_segment(pool, segment, size, stream, true, context)) return b;
  out_of_memory(pool, size, bytes, stream, lock, context);
}

Block* DeviceMemory::take_from_oom_pools(
    const Pool& pool, size_t size, c10::StreamId stream, Pool::Free::node_type& node) {
  if (pool.owner) return nullptr;
  for (auto& other : private_) {
    if (!other.second->use_on_oom) continue;
    auto& theirs = size <= kSmallRequest ? other.second->small : other.second->large;
    if (auto* b = take_free(theirs, size, stream, node)) return b;
  }
  return nullptr;
}

bool DeviceMemory::is_rejected(size_t size) const {
  if (C10_LIKELY(options_.reject_fraction < 0)) return false;
  const auto most = static_cast<size_t>(options_.reject_fraction * static_cast<double>(limits_.total));
  return reserved() + uncached_ + size > most;
}

void DeviceMemory::reject(size_t bytes, Lock& lock) {
  lock.unlock();
  TORCH_CHECK_WITH(
      OutOfMemoryError, false,
      "CUDA out of memory. Allocation was preemptively rejected because it would exceed per_process_memory_fraction "
      "limit. Requested size: ",
      format_size(bytes));
}

size_t DeviceMemory::private_bytes() const {
  size_t found = 0;
  for (const auto& p : private_)
    for (const auto* pool : {&p.second->small, &p.second->large})
      for (const auto* b : pool->free) found += b->size;
  return found;
}

size_t DeviceMemory::largest_free_block() const {
  size_t largest = 0;
  for (const auto* pool : {&small_, &large_})
    for (const auto* b : pool->free) largest = std::max(largest, b->size);
  return largest;
}

void DeviceMemory::out_of_memory(
    const Pool& pool, size_t size, size_t bytes, c10::StreamId stream, Lock& lock, const Context& context) {
  stats_.num_ooms++;
  const size_t wanted = options_.segment_size(size);
  const size_t free = std::min(limits_.free(reserved() + uncached_), host_left());
  const OutOfMemoryInfo info{index_,          bytes,          wanted, allocated(), reserved(),
                             private_bytes(), options_.async, free,   limits_,     largest_free_block()};
  trace_event(Action::Oom, free, size, stream, &pool, context);
  lock.unlock();
  if (const auto note = g_note_shortage.load(std::memory_order_acquire); note && is_counted()) note(info);
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(size), info.allocated, info.reserved, device(index_));
  if (const auto tell = g_oom_observer.load(std::memory_order_acquire)) tell(info);
  throw_out_of_memory(info);
}

void DeviceMemory::garbage_collect(const Context& context) {
  const auto threshold =
      static_cast<size_t>(options_.garbage_collection_threshold * static_cast<double>(limits_.allowed()));
  if (reserved() <= threshold) return;
  const size_t target = reserved() - threshold;
  const auto age = [&](const Block* b) { return large_.searches - b->freed_at_search; };
  int64_t ages = 0, blocks = 0;
  for (const auto* b : large_.free) {
    if (b->is_split()) continue;
    ages += age(b);
    blocks++;
  }
  // Release blocks of above-average age until enough is free. Finish each round even if that frees more than needed, so
  // that the next request does not start over.
  size_t freed = 0;
  for (bool any = true; freed < target && any && blocks > 0;) {
    any = false;
    const double bound = static_cast<double>(ages) / static_cast<double>(blocks);
    for (auto it = large_.free.begin(); it != large_.free.end();) {
      Block* b = *it++;
      if (b->is_split() || b->expandable || static_cast<double>(age(b)) < bound) continue;
      any = true;
      freed += b->size;
      ages -= age(b);
      blocks--;
      large_.free.erase(b);
      release_segment(large_, b, context);
    }
  }
}

bool DeviceMemory::release_oversize_blocks(Pool& pool, size_t size, c10::StreamId stream, const Context& context) {
  if (options_.max_split == Options::kNever) return false;
  const BlockKey key{nullptr, std::max(size, options_.max_split), 0, stream};
  auto it = pool.free.lower_bound(&key);
  if (it != pool.free.end() && (*it)->stream == stream && !(*it)->expandable) {
    Block* b = *it;
    pool.free.erase(it);
    release_segment(pool, b, context);
    return true;
  }
  // No single block is large enough: release several, the largest first.
  size_t freed = 0;
  while (freed < key.size && it != pool.free.begin()) {
    Block* b = *--it;
    if (b->size < options_.max_split || b->stream != stream) break;
    if (b->expandable) continue;
    freed += b->size;
    it = pool.free.erase(it);
    release_segment(pool, b, context);
  }
  return freed >= key.size;
}

void DeviceMemory::return_idle_blocks(const Context& context, std::optional<c10::StreamId> allocating) {
  for (size_t i = 0; i < pending_.size();) {
    Block* b = pending_[i];
    if (is_busy(b) && !(allocating && options_.reuses_in_capture && comes_after_uses(b, *allocating))) {
      i++;
      continue;
    }
    pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(i));
    b->used_by.clear();
    b->work_at_free.clear();
    return_to_pool(b, context);
  }
}

void DeviceMemory::wait_for_pending(const Context& context, PoolId pool) {
  stats_.num_sync_all_streams++;
  for (const auto* b : pending_) {
    if (pool != PoolId{0, 0} && id_of(b->pool) != pool) continue;
    for (const auto stream : b->used_by) wait_until(stream_state(index_, stream).ready_ns.load());
  }
  return_idle_blocks(context);
}

void DeviceMemory::release_segment(Pool& pool, Block* b, const Context& context) {
  trace_event(
      Action::SegmentFree, reinterpret_cast<uintptr_t>(b->ptr), b->size, b->stream, &pool,
      context ? context : b->segment_context);
  count(pool, [&](StatKind k) {
    stats_.segment[k].decrease(1);
    stats_.reserved_bytes[k].decrease(b->size);
  });
  publish_held(index_, reserved() + uncached_);
  if (b->size >= options_.max_split) stats_.oversize_segments.decrease(1);
  stats_.num_device_free++;
  if (pool.owner) pool.owner->segments--;
  segments_.erase(b->ptr);
  addresses().remove(b->ptr);
  const RuntimeCall call("cudaFree");
  unmap_segment(b->ptr, b->size);
  drop_block(b);
}

void DeviceMemory::release_cached(PoolId only, const Context& context) {
  const auto sweep = [&](Pool& pool) {
    std::vector<Block*> shrinking;  // unmapped afterwards, because that changes the free set
    for (auto it = pool.free.begin(); it != pool.free.end();) {
      Block* b = *it;
      if (b->expandable) {
        shrinking.push_back(b);
        ++it;
      } else if (b->is_split()) {
        ++it;
      } else {
        it = pool.free.erase(it);
        release_segment(pool, b, context);
      }
    }
    for (auto* b : shrinking) unmap_block(b, context);
  };
  if (only == PoolId{0, 0}) {
    wait_for_pending(context, only);
    sweep(large_);
    sweep(small_);
  }
  std::vector<PoolId> ids;
  for (auto& p : private_) {
    if (p.second->uses != 0 || (p.first != only && only != PoolId{0, 0})) continue;
    if (only != PoolId{0, 0}) wait_for_pending(context, only);
    sweep(p.second->small);
    sweep(p.second->large);
    ids.push_back(p.first);
  }
  for (auto& id : ids) drop_if_unused(id);
}

// ---- uncached allocations -------------------------------------------------------------------------------------------

Block* DeviceMemory::allocate_uncached(size_t bytes, c10::StreamId stream) {
  const RuntimeCall call("cudaMalloc");
  check_before_launch(index_);
  Lock lock(mutex_);
  const size_t size = round_up(bytes, kChunk);
  char* p = has_room(size) ? map_segment(size) : nullptr;
  if (p && !addresses().add(p, size)) {
    unmap_segment(p, size);
    p = nullptr;
  }
  if (!p) {
    lock.unlock();
    constexpr int kCudaErrorMemoryAllocation = 2;
    throw_cuda_error(
        kCudaErrorMemoryAllocation,
        "out of memory\nSearch for `cudaErrorMemoryAllocation' in "
        "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.");
  }
  record_reserved(p, size);
  Block* b = make_block();
  b->ptr = p;
  b->size = size;
  b->requested = bytes;
  b->stream = stream;
  b->device = index_;
  b->allocated = true;
  segments_.emplace(p, b);
  addresses().set(p, b);
  uncached_ += size;
  publish_held(index_, reserved() + uncached_);
  return b;
}

void DeviceMemory::release_uncached(Block* b) {
  const RuntimeCall call("cudaFree");
  uncached_ -= b->size;
  publish_held(index_, reserved() + uncached_);
  segments_.erase(b->ptr);
  addresses().remove(b->ptr);
  unmap_segment(b->ptr, b->size);
  drop_block(b);
}

}  // namespace hostdevice
