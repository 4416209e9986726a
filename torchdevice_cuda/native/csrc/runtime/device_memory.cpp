#include "runtime/device_memory.h"

#include <c10/core/Allocator.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "runtime/captures.h"
#include "runtime/device.h"
#include "runtime/segments.h"
#include "runtime/streams.h"

namespace hostdevice {

DeviceMemory& memory_of(c10::DeviceIndex index) {
  static std::array<std::atomic<DeviceMemory*>, kMaxDevices> all{};
  static std::mutex mutex;
  auto& slot = all.at(static_cast<size_t>(index));
  if (auto* m = slot.load(std::memory_order_acquire)) return *m;
  std::lock_guard<std::mutex> lock(mutex);
  if (auto* m = slot.load(std::memory_order_acquire)) return *m;
  auto* m = new DeviceMemory(index);  // leaked: tensors outlive static destruction
  slot.store(m, std::memory_order_release);
  return *m;
}

Block* DeviceMemory::allocate(size_t bytes, c10::StreamId stream) {
  Context context = context_of_event();
  Lock lock(mutex_);
  if (C10_UNLIKELY(!pending_.empty())) settle_pending();
  const size_t size = round_request(bytes);
  Pool& pool = pool_for(size, stream);

  Block* b = nullptr;
  const BlockKey key{nullptr, size, 0, stream};
  decltype(pool.free)::node_type node;  // of the block taken, for the remainder to go in
  auto it = pool.free.lower_bound(&key);
  if (it != pool.free.end() && (*it)->stream == stream) {
    b = *it;
    node = pool.free.extract(it);
  } else {
    const size_t want = segment_size(size);
    b = new_segment(pool, want, stream, false, context);
    if (!b && release_cached({0, 0})) b = new_segment(pool, want, stream, true, context);
    if (!b) {
      stats_.num_ooms++;
      out_of_memory(want, lock, context);
    }
  }

  const bool was_split = b->is_split();
  const size_t left = b->size - size;
  if (pool.small ? left >= kMinBlock : left > kSmallRequest) {
    Block* rest = make_block();
    rest->ptr = b->ptr + size;
    rest->size = left;
    rest->stream = b->stream;
    rest->pool = b->pool;
    rest->device = b->device;
    rest->prev = b;
    rest->next = b->next;
    if (rest->next) rest->next->prev = rest;
    b->next = rest;
    b->size = size;
    if (node) {
      node.value() = rest;
      pool.free.insert(std::move(node));
    } else {
      pool.free.insert(rest);
    }
    count(pool, [&](StatKind k) {
      if (was_split) {
        stats_.inactive_split_bytes[k].decrease(size);
      } else {
        stats_.inactive_split_bytes[k].increase(left);
        stats_.inactive_split[k].increase(1);
      }
    });
  } else if (was_split) {
    count(pool, [&](StatKind k) {
      stats_.inactive_split_bytes[k].decrease(b->size);
      stats_.inactive_split[k].decrease(1);
    });
  }
  b->allocated = true;
  b->requested = bytes;
  addresses().set(b->ptr, b);
  const size_t n = b->size;
  count(pool, [&](StatKind k) {
    stats_.allocation[k].increase(1);
    stats_.allocated_bytes[k].increase(n);
    stats_.active[k].increase(1);
    stats_.active_bytes[k].increase(n);
    stats_.requested_bytes[k].increase(bytes);
  });
  if (history_enabled()) {
    b->context = context;
    note(Action::Alloc, reinterpret_cast<uintptr_t>(b->ptr), bytes, stream, &pool, std::move(context));
  }
  const size_t all_allocated = allocated(), all_reserved = reserved();
  lock.unlock();
  c10::reportMemoryUsageToProfiler(b->ptr, static_cast<int64_t>(n), all_allocated, all_reserved, device(index_));
  return b;
}

Block* DeviceMemory::new_segment(Pool& pool, size_t size, c10::StreamId stream, bool retry, const Context& context) {
  refuse_unsafe_call_beside(stream_state(index_, stream));
  if (retry) stats_.num_alloc_retries++;
  const size_t allowed = limits_.allowed();
  if (size > allowed || reserved() > allowed - size) return nullptr;
  char* p = map_segment(size);
  if (!p) return nullptr;
  if (!addresses().add(p, size)) {
    unmap_segment(p, size);
    return nullptr;
  }
  Block* b = make_block();
  b->ptr = p;
  b->size = size;
  b->stream = stream;
  b->pool = &pool;
  b->device = index_;
  b->segment_context = context;
  segments_.emplace(b->ptr, b);
  if (pool.owner) pool.owner->segments++;
  count(pool, [&](StatKind k) {
    stats_.segment[k].increase(1);
    stats_.reserved_bytes[k].increase(size);
  });
  stats_.num_device_alloc++;
  note(Action::SegmentAlloc, reinterpret_cast<uintptr_t>(p), size, stream, &pool, context);
  return b;
}

void DeviceMemory::out_of_memory(size_t wanted, Lock& lock, const Context& context) {
  const Shortage shortage{index_, wanted, allocated(), reserved(), limits_};
  note(Action::Oom, limits_.free(reserved()), wanted, 0, nullptr, context);
  lock.unlock();
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(wanted), shortage.allocated, shortage.reserved, device(index_));
  if (const auto tell = g_shortage_observer.load(std::memory_order_acquire)) tell(shortage);
  throw_out_of_memory(shortage);
}

void DeviceMemory::merge_next(Block* b) {
  Block* n = b->next;
  b->size += n->size;
  b->next = n->next;
  if (b->next) b->next->prev = b;
  drop_block(n);
}

void DeviceMemory::return_to_pool(Block* b) {
  Pool& pool = *b->pool;
  note(Action::FreeCompleted, reinterpret_cast<uintptr_t>(b->ptr), b->requested, b->stream, &pool, b->context);
  b->context.reset();
  const size_t n = b->size, requested = b->requested;
  b->allocated = b->pending = false;
  int64_t split_blocks = 0, split_bytes = 0;
  decltype(pool.free)::node_type node;  // of a block merged away, for the merged one to go in
  if (b->next && b->next->is_free()) {
    node = pool.free.extract(b->next);
    split_blocks--;
    split_bytes -= static_cast<int64_t>(b->next->size);
    merge_next(b);
  }
  if (b->prev && b->prev->is_free()) {
    Block* p = b->prev;
    node = pool.free.extract(p);
    split_blocks--;
    split_bytes -= static_cast<int64_t>(p->size);
    merge_next(p);
    b = p;
  }
  b->requested = 0;
  if (b->is_split()) {
    split_blocks++;
    split_bytes += static_cast<int64_t>(b->size);
  }
  if (node) {
    node.value() = b;
    pool.free.insert(std::move(node));
  } else {
    pool.free.insert(b);
  }
  count(pool, [&](StatKind k) {
    auto apply = [](Stat& s, int64_t v) {
      if (v > 0) s.increase(static_cast<size_t>(v));
      if (v < 0) s.decrease(static_cast<size_t>(-v));
    };
    apply(stats_.inactive_split[k], split_blocks);
    apply(stats_.inactive_split_bytes[k], split_bytes);
    stats_.active[k].decrease(1);
    stats_.active_bytes[k].decrease(n);
    stats_.requested_bytes[k].decrease(requested);
  });
}

bool DeviceMemory::takes_part(c10::StreamId stream, uint64_t capture) const {
  return stream_state(index_, stream).capture.load(std::memory_order_acquire) == capture;
}

bool DeviceMemory::is_busy(const Block* b) const {
  // Nobody can say what a stream does when the graph is replayed, so CUDA waits for the end of the capture.
  if (!b->used_by.empty() && captures_underway()) return true;
  for (const auto stream : b->used_by)
    if (!stream_idle(stream_state(index_, stream))) return true;
  return false;
}

void DeviceMemory::release(Block* b) {
  Context context = context_of_free();
  Lock lock(mutex_);
  give_back(b, std::move(context), lock);
}

bool DeviceMemory::release_at(char* address) {
  Context context = context_of_free();
  Lock lock(mutex_);
  Block* b = segment_at(address) ? addresses().block(address) : nullptr;
  if (!b || b->ptr != address || !b->allocated) return false;
  give_back(b, std::move(context), lock);
  return true;
}

void DeviceMemory::give_back(Block* b, Context context, Lock& lock) {
  char* const ptr = b->ptr;
  const size_t n = b->size;
  Pool& pool = *b->pool;
  count(pool, [&](StatKind k) {
    stats_.allocation[k].decrease(1);
    stats_.allocated_bytes[k].decrease(n);
  });
  note(
      Action::FreeRequested, reinterpret_cast<uintptr_t>(ptr), b->requested, b->stream, &pool,
      context ? std::move(context) : b->context);
  if (C10_UNLIKELY(is_busy(b))) {
    b->allocated = false;
    b->pending = true;
    pending_.push_back(b);
  } else {
    b->used_by.clear();
    return_to_pool(b);
  }
  const size_t all_allocated = allocated(), all_reserved = reserved();
  lock.unlock();
  c10::reportMemoryUsageToProfiler(ptr, -static_cast<int64_t>(n), all_allocated, all_reserved, device(index_));
}

void DeviceMemory::record_use(Block* b, c10::StreamId stream) {
  stream_state(index_, stream);  // a stream that is none is the caller's error, not that of who gives the block back
  std::lock_guard<std::mutex> lock(mutex_);
  if (stream == b->stream) return;
  if (std::find(b->used_by.begin(), b->used_by.end(), stream) == b->used_by.end()) b->used_by.push_back(stream);
}

void DeviceMemory::settle_pending() {
  for (size_t i = 0; i < pending_.size();) {
    Block* b = pending_[i];
    if (is_busy(b)) {
      i++;
      continue;
    }
    pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(i));
    b->used_by.clear();
    return_to_pool(b);
  }
}

void DeviceMemory::release_segment(Pool& pool, Block* b) {
  note(Action::SegmentFree, reinterpret_cast<uintptr_t>(b->ptr), b->size, b->stream, &pool, b->segment_context);
  count(pool, [&](StatKind k) {
    stats_.segment[k].decrease(1);
    stats_.reserved_bytes[k].decrease(b->size);
  });
  stats_.num_device_free++;
  if (pool.owner) pool.owner->segments--;
  segments_.erase(b->ptr);
  addresses().remove(b->ptr);
  unmap_segment(b->ptr, b->size);
  drop_block(b);
}

bool DeviceMemory::release_cached(PoolId only) {
  bool any = false;
  auto sweep = [&](Pool& pool) {
    for (auto it = pool.free.begin(); it != pool.free.end();) {
      Block* b = *it;
      if (b->is_split()) {
        ++it;
        continue;
      }
      it = pool.free.erase(it);
      release_segment(pool, b);
      any = true;
    }
  };
  if (only == PoolId{0, 0}) {
    sweep(small_);
    sweep(large_);
  }
  std::vector<PoolId> ids;
  for (auto& p : private_) {
    if (p.second->uses == 0 && (p.first == only || only == PoolId{0, 0})) {
      sweep(p.second->small);
      sweep(p.second->large);
      ids.push_back(p.first);
    }
  }
  for (auto& id : ids) drop_if_unused(id);
  return any;
}

}  // namespace hostdevice
