// Expandable segments, and their use by DeviceMemory.
#include "runtime/expandable.h"

#include <sys/mman.h>

#include <algorithm>

#include "runtime/device_memory.h"
#include "runtime/host.h"
#include "runtime/published.h"

namespace hostdevice {

ExpandableSegment* ExpandableSegment::make(size_t device_size, size_t page) {
  // Reserve an eighth more than the device's memory, like CUDA: free addresses may be fragmented.
  const size_t size = round_up(device_size + device_size / 8, page);
  char* const base = map_segment(size);
  if (!base) return nullptr;
  if (!addresses().add(base, size)) {
    unmap_segment(base, size);
    return nullptr;
  }
  return new ExpandableSegment(base, size, page);
}

ExpandableSegment::~ExpandableSegment() {
  addresses().remove(base_);
  unmap_segment(base_, size_);
}

std::pair<char*, size_t> ExpandableSegment::pages_within(char* start, size_t size) const {
  const auto first = round_up(static_cast<size_t>(start - base_), page_);
  const auto last = static_cast<size_t>(start - base_ + static_cast<ptrdiff_t>(size)) / page_ * page_;
  return {base_ + first, last > first ? last - first : 0};
}

void ExpandableSegment::drop(char* start, size_t size) {
  record_released(start, size);
#ifdef MADV_REMOVE
  // Only MADV_REMOVE frees memory that other processes have mapped, too.
  if (const auto* segment = addresses().find(start); segment && segment->shared_range)
    madvise(start, size, MADV_REMOVE);
#endif
  madvise(start, size, MADV_DONTNEED);
}

// ---- use by DeviceMemory --------------------------------------------------------------------------------------------

Block* DeviceMemory::reserve_addresses(Pool& pool, size_t size, c10::StreamId stream) {
  const auto is_room = [](const Block* b) { return b && b->is_free(); };
  // Return whether the free blocks from here on, mapped or not, hold the request.
  const auto holds = [&](const Block* b) {
    size_t found = 0;
    for (; is_room(b); b = b->next)
      if ((found += b->size) >= size) return true;
    return false;
  };
  const BlockKey first{nullptr, 0, 0, stream};
  for (auto it = pool.unmapped.lower_bound(&first); it != pool.unmapped.end() && (*it)->stream == stream; ++it) {
    Block* b = *it;
    if (is_room(b->prev)) b = b->prev;
    if (holds(b)) return b;
  }
  auto* const segment = ExpandableSegment::make(limits_.total, pool.small ? kSmallSegment : options_.large_segment);
  if (!segment) return nullptr;
  Block* b = make_block();
  b->ptr = segment->base();
  b->size = segment->size();
  b->stream = stream;
  b->pool = &pool;
  b->device = index_;
  b->mapped = false;
  b->expandable = segment;
  segments_.emplace(b->ptr, b);
  if (pool.owner) pool.owner->segments++;
  pool.unmapped.insert(b);
  return b;
}

Block* DeviceMemory::grow(Pool& pool, size_t size, c10::StreamId stream, const Context& context) {
  Block* b = reserve_addresses(pool, size, stream);
  if (!b) return nullptr;
  if (!b->mapped && !(b = map_block(b, std::min(b->size, size), context))) return nullptr;
  while (b->size < size) {
    b = map_block(b->next, std::min(size - b->size, b->next->size), context);
    if (!b) return nullptr;
  }
  pool.free.erase(b);
  return b;
}

Block* DeviceMemory::map_block(Block* b, size_t wanted, const Context& context) {
  const size_t size = std::min(b->expandable->whole_pages(wanted), b->size);
  if (!has_room(size)) return nullptr;
  Pool& pool = *b->pool;
  pool.unmapped.erase(b);
  if (size < b->size) {
    Block* const rest = split_block(b, size);
    rest->requested = 0;
    pool.unmapped.insert(rest);
  }
  b->mapped = true;
  record_reserved(b->ptr, size);
  char* const start = b->ptr;
  const bool leads = b->prev == nullptr;
  if (b->can_merge(b->next)) {
    pool.free.erase(b->next);
    merge_next(b);
  }
  if (b->can_merge(b->prev)) {
    const size_t requested = b->requested;
    b = b->prev;
    pool.free.erase(b);
    merge_next(b);
    b->requested = requested;
  }
  pool.add(b);
  count(pool, [&](StatKind k) { stats_.reserved_bytes[k].increase(size); });
  publish_held(index_, reserved() + uncached_);
  stats_.num_device_alloc++;
  if (leads && !b->segment_context) b->segment_context = context;
  trace_event(Action::SegmentMap, reinterpret_cast<uintptr_t>(start), size, b->stream, &pool, context);
  return b;
}

void DeviceMemory::unmap_block(Block* b, const Context& context) {
  const auto [start, size] = b->expandable->pages_within(b->ptr, b->size);
  if (size == 0) return;
  Pool& pool = *b->pool;
  pool.free.erase(b);
  if (b->ptr < start) {
    Block* const before = b;
    b = split_block(before, static_cast<size_t>(start - before->ptr));
    before->requested = 0;
    pool.add(before);
  }
  if (size < b->size) {
    Block* const after = split_block(b, size);
    after->requested = 0;
    pool.add(after);
  }
  b->mapped = false;
  ExpandableSegment::drop(start, size);
  if (b->can_merge(b->next)) {
    pool.unmapped.erase(b->next);
    merge_next(b);
  }
  if (b->can_merge(b->prev)) {
    b = b->prev;
    pool.unmapped.erase(b);
    merge_next(b);
  }
  pool.unmapped.insert(b);
  count(pool, [&](StatKind k) { stats_.reserved_bytes[k].decrease(size); });
  publish_held(index_, reserved() + uncached_);
  stats_.num_device_free++;
  trace_event(
      Action::SegmentUnmap, reinterpret_cast<uintptr_t>(start), size, b->stream, &pool,
      context ? context : b->segment_context);
  if (b->is_split()) return;
  pool.unmapped.erase(b);
  if (pool.owner) pool.owner->segments--;
  segments_.erase(b->ptr);
  delete b->expandable;
  drop_block(b);
}

}  // namespace hostdevice
