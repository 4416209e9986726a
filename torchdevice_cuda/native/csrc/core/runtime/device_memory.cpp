#include "runtime/device_memory.h"

#include <c10/core/Allocator.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "runtime/activities.h"
#include "runtime/captures.h"
#include "runtime/device.h"
#include "runtime/host.h"
#include "runtime/ipc.h"
#include "runtime/observer.h"
#include "runtime/published.h"
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
  if (is_counted()) set_allocation_site(DeviceWork::site());
  observe([](StreamObserver& o) { o.begin_memory_call(); });
  Lock lock(mutex_);
  if (C10_UNLIKELY(!pending_.empty())) return_idle_blocks(context, stream);
  const size_t size = options_.round(bytes);
  Pool::Free::node_type node;  // set node of the block that is taken; the remainder reuses it
  Pool& wanted = pool_for(size, stream);
  Block* b = take_free(wanted, size, stream, node);
  if (C10_UNLIKELY(!b && g_in_limbo.load(std::memory_order_relaxed) != 0)) {
    lock.unlock();  // the release of returned memory takes this lock
    if (collect_sent()) return allocate(bytes, stream);
    lock.lock();
  }
  if (C10_UNLIKELY(!b)) b = allocate_new(wanted, size, bytes, stream, node, lock, context);

  mark_allocated(b, size, bytes, should_split(b, size), std::move(node), std::move(context));
  const size_t n = b->size;
  const size_t all_allocated = allocated(), all_reserved = reserved();
  lock.unlock();
  c10::reportMemoryUsageToProfiler(b->ptr, static_cast<int64_t>(n), all_allocated, all_reserved, device(index_));
  return b;
}

void DeviceMemory::mark_allocated(
    Block* b, size_t size, size_t bytes, bool split, Pool::Free::node_type&& node, Context context) {
  Pool& pool = *b->pool;
  const bool was_split = b->is_split(), counted = !b->expandable;
  if (split) {
    Block* rest = split_block(b, size);
    const size_t left = rest->size;
    if (C10_UNLIKELY(b->segment_context != nullptr)) rest->segment_context = std::move(b->segment_context);  // as CUDA
    pool.add(rest, std::move(node));
    if (C10_LIKELY(counted)) {
      count(pool, [&](StatKind k) {
        if (was_split) {
          stats_.inactive_split_bytes[k].decrease(size);
        } else {
          stats_.inactive_split_bytes[k].increase(left);
          stats_.inactive_split[k].increase(1);
        }
      });
    }
  } else if (was_split && counted) {
    count(pool, [&](StatKind k) {
      stats_.inactive_split_bytes[k].decrease(b->size);
      stats_.inactive_split[k].decrease(1);
    });
  }
  b->allocated = true;
  b->requested = bytes;
  addresses().set(b->ptr, b);
  observe([&](StreamObserver& o) { o.allocate(b->observed()); });
  const size_t n = b->size;
  count(pool, [&](StatKind k) {
    stats_.allocation[k].increase(1);
    stats_.allocated_bytes[k].increase(n);
    stats_.active[k].increase(1);
    stats_.active_bytes[k].increase(n);
    stats_.requested_bytes[k].increase(bytes);
  });
  if (C10_UNLIKELY(n >= options_.max_split)) stats_.oversize_allocations.increase(1);
  if (is_counted()) count_memory(index_, b->ptr, static_cast<int64_t>(n), static_cast<int64_t>(allocated()));
  if (history_enabled()) {
    b->context = context;
    trace_event(Action::Alloc, reinterpret_cast<uintptr_t>(b->ptr), bytes, b->stream, &pool, std::move(context));
  }
}

Block* DeviceMemory::split_block(Block* b, size_t size) {
  Block* rest = make_block();
  rest->ptr = b->ptr + size;
  rest->size = b->size - size;
  rest->requested = b->requested;  // a free block reports its last requested size, and so do its parts
  rest->stream = b->stream;
  rest->pool = b->pool;
  rest->device = b->device;
  rest->mapped = b->mapped;
  rest->expandable = b->expandable;
  rest->prev = b;
  rest->next = b->next;
  if (rest->next) rest->next->prev = rest;
  b->next = rest;
  b->size = size;
  return rest;
}

bool DeviceMemory::has_room(size_t size) {
  return limits_.allows(reserved() + uncached_, size) && can_reserve_host(size);
}

Block* DeviceMemory::new_segment(
    Pool& pool, size_t size, size_t wanted, c10::StreamId stream, bool retry, const Context& context) {
  refuse_unsafe_call_unless_capturing(stream_state(index_, stream));
  if (retry) stats_.num_alloc_retries++;
  if (options_.expandable)
    return limits_.allows(reserved() + uncached_, size) ? grow(pool, wanted, stream, context) : nullptr;
  if (!has_room(size)) return nullptr;
  const RuntimeCall call("cudaMalloc");
  char* p = map_segment(size);
  if (!p) return nullptr;
  if (!addresses().add(p, size)) {
    unmap_segment(p, size);
    return nullptr;
  }
  record_reserved(p, size);
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
  publish_held(index_, reserved() + uncached_);
  if (size >= options_.max_split) stats_.oversize_segments.increase(1);
  stats_.num_device_alloc++;
  trace_event(Action::SegmentAlloc, reinterpret_cast<uintptr_t>(p), size, stream, &pool, context);
  return b;
}

void DeviceMemory::merge_next(Block* b) {
  Block* n = b->next;
  b->size += n->size;
  b->next = n->next;
  if (b->next) b->next->prev = b;
  drop_block(n);
}

void DeviceMemory::return_to_pool(Block* b, const Context& context) {
  Pool& pool = *b->pool;
  trace_event(
      Action::FreeCompleted, reinterpret_cast<uintptr_t>(b->ptr), b->requested, b->stream, &pool,
      context ? context : b->context);
  b->context.reset();
  const size_t n = b->size, requested = b->requested;
  b->allocated = b->pending = false;
  int64_t split_blocks = 0, split_bytes = 0;
  Pool::Free::node_type node;  // set node of a block that is merged away; the merged block reuses it
  if (b->can_merge(b->next)) {
    node = pool.free.extract(b->next);
    split_blocks--;
    split_bytes -= static_cast<int64_t>(b->next->size);
    merge_next(b);
  }
  if (b->can_merge(b->prev)) {
    Block* p = b->prev;
    node = pool.free.extract(p);
    split_blocks--;
    split_bytes -= static_cast<int64_t>(p->size);
    merge_next(p);
    b = p;
  }
  b->requested = requested;
  if (b->is_split()) {
    split_blocks++;
    split_bytes += static_cast<int64_t>(b->size);
  }
  // Whole pages of an expandable segment can always be unmapped, so that its free blocks do not count as inactive
  // split.
  if (C10_UNLIKELY(b->expandable != nullptr)) split_blocks = split_bytes = 0;
  pool.add(b, std::move(node));
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
  // It is unknown what a stream does when the graph is replayed, so CUDA waits for the end of the capture.
  if (!b->used_by.empty() && has_captures()) return true;
  for (const auto stream : b->used_by)
    if (!stream_idle(stream_state(index_, stream))) return true;
  return false;
}

bool DeviceMemory::comes_after_uses(const Block* b, c10::StreamId stream) const {
  if (b->work_at_free.size() != b->used_by.size() + 1) return false;
  const auto& next = stream_state(index_, stream);
  const auto comes_after_work = [&](c10::StreamId other, uint64_t work) {
    return comes_after(next, stream_state(index_, other), work);
  };
  for (size_t i = 0; i < b->used_by.size(); i++)
    if (!comes_after_work(b->used_by[i], b->work_at_free[i])) return false;
  return comes_after_work(b->stream, b->work_at_free.back());
}

void DeviceMemory::release(Block* b) {
  if (C10_UNLIKELY(!b->pool)) observe([&](StreamObserver& o) { o.begin_release(index_); });
  const Context context = context_of_free();
  observe([](StreamObserver& o) { o.begin_memory_call(); });
  Lock lock(mutex_);
  free_block(b, context, lock);
}

bool DeviceMemory::release_at(char* address) {
  const Context context = context_of_free();
  observe([](StreamObserver& o) { o.begin_memory_call(); });
  Lock lock(mutex_);
  Block* b = segment_at(address) ? addresses().block(address) : nullptr;
  if (!b || b->ptr != address || !b->allocated) return false;
  free_block(b, context, lock);
  return true;
}

void DeviceMemory::free_block(Block* b, const Context& context, Lock& lock) {
  if (C10_UNLIKELY(!b->pool)) return release_uncached(b);
  char* const ptr = b->ptr;
  const size_t n = b->size;
  mark_freed(b, context);
  const size_t all_allocated = allocated(), all_reserved = reserved();
  lock.unlock();
  c10::reportMemoryUsageToProfiler(ptr, -static_cast<int64_t>(n), all_allocated, all_reserved, device(index_));
}

void DeviceMemory::mark_freed(Block* b, const Context& context) {
  observe([&](StreamObserver& o) { o.free(b->observed()); });
  const size_t n = b->size;
  Pool& pool = *b->pool;
  count(pool, [&](StatKind k) {
    stats_.allocation[k].decrease(1);
    stats_.allocated_bytes[k].decrease(n);
  });
  if (C10_UNLIKELY(n >= options_.max_split)) stats_.oversize_allocations.decrease(1);
  if (is_counted()) count_memory(index_, b->ptr, -static_cast<int64_t>(n), static_cast<int64_t>(allocated()));
  trace_event(
      Action::FreeRequested, reinterpret_cast<uintptr_t>(b->ptr), b->requested, b->stream, &pool,
      context ? context : b->context);
  if (C10_UNLIKELY(is_busy(b))) {
    b->allocated = false;
    b->pending = true;
    pending_.push_back(b);
    if (options_.reuses_in_capture && has_captures()) {
      b->work_at_free.clear();
      for (const auto stream : b->used_by) b->work_at_free.push_back(captured_work(stream_state(index_, stream)));
      b->work_at_free.push_back(captured_work(stream_state(index_, b->stream)));
    }
  } else {
    b->used_by.clear();
    return_to_pool(b, context);
  }
}

void DeviceMemory::record_stream(Block* b, c10::StreamId stream) {
  stream_state(index_, stream);  // throws here for an invalid stream, rather than when the block is freed
  std::lock_guard<std::mutex> lock(mutex_);
  if (stream == b->stream) return;
  if (std::find(b->used_by.begin(), b->used_by.end(), stream) == b->used_by.end()) b->used_by.push_back(stream);
}

}  // namespace hostdevice
