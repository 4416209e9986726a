// What can be asked of a device's memory, and set: statistics, limits, snapshots, private pools.
#include <c10/util/Exception.h>

#include <algorithm>

#include "runtime/device_memory.h"

namespace hostdevice {

Stats DeviceMemory::stats() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

std::pair<size_t, size_t> DeviceMemory::in_use() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {allocated(), reserved()};
}

void DeviceMemory::reset_peak_stats() {
  const std::lock_guard<std::mutex> lock(mutex_);
  each_stat(stats_, [](Stat& s) { s.reset_peak(); });
}

void DeviceMemory::reset_accumulated_stats() {
  const std::lock_guard<std::mutex> lock(mutex_);
  each_stat(stats_, [](Stat& s) { s.reset_accumulated(); });
  stats_.num_alloc_retries = stats_.num_ooms = stats_.num_sync_all_streams = 0;
  stats_.num_device_alloc = stats_.num_device_free = 0;
}

void DeviceMemory::set_limit(size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  limits_.total = bytes;
}

void DeviceMemory::set_fraction(double fraction) {
  const std::lock_guard<std::mutex> lock(mutex_);
  limits_.fraction = fraction;
}

double DeviceMemory::fraction() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return limits_.fraction;
}

std::pair<size_t, size_t> DeviceMemory::info() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {limits_.free(reserved()), limits_.total};
}

void DeviceMemory::empty_cache(PoolId pool) {
  const std::lock_guard<std::mutex> lock(mutex_);
  settle_pending();
  release_cached(pool);
}

std::vector<TraceEntry> DeviceMemory::trace() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return trace_.entries();
}

void DeviceMemory::clear_trace() {
  const std::lock_guard<std::mutex> lock(mutex_);
  trace_.clear();
}

std::vector<SegmentInfo> DeviceMemory::snapshot() {
  Context context = context_of_event();
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<SegmentInfo> out;
  size_t total = 0;
  for (auto& s : segments_) {
    SegmentInfo info;
    info.device = index_;
    info.address = reinterpret_cast<uintptr_t>(s.first);
    info.stream = s.second->stream;
    info.large = !s.second->pool->small;
    if (s.second->pool->owner) info.pool = s.second->pool->owner->id;
    info.context = s.second->segment_context;
    for (Block* b = s.second; b; b = b->next) {
      BlockInfo bi;
      bi.address = reinterpret_cast<uintptr_t>(b->ptr);
      bi.size = b->size;
      bi.requested = b->requested;
      bi.context = b->context;
      info.total += b->size;
      if (b->allocated) {
        bi.state = "active_allocated";
        info.allocated += b->size;
      } else if (b->pending) {
        bi.state = "active_pending_free";
      }
      if (b->allocated || b->pending) {
        info.active += b->size;
        info.requested += b->requested;
      }
      info.blocks.push_back(std::move(bi));
    }
    total += info.total;
    out.push_back(std::move(info));
  }
  note(Action::Snapshot, 0, total, 0, nullptr, std::move(context));
  return out;
}

const AddressTable::Segment* DeviceMemory::segment_at(const void* address) const {
  auto* const p = static_cast<char*>(const_cast<void*>(address));
  auto it = segments_.upper_bound(p);
  if (it == segments_.begin()) return nullptr;
  const auto* s = addresses().find((--it)->first);
  return p < s->base + s->size ? s : nullptr;
}

std::pair<void*, size_t> DeviceMemory::segment_of(const void* address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto* s = segment_at(address);
  return s ? std::pair<void*, size_t>{s->base, s->size} : std::pair<void*, size_t>{nullptr, 0};
}

// ---- private pools ------------------------------------------------------------------------------------------------

PrivatePool& DeviceMemory::retained(PoolId id) {
  auto& pool = private_[id];
  if (!pool) pool = std::make_unique<PrivatePool>(id);
  return *pool;
}

void DeviceMemory::pool_retain(PoolId id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  retained(id).uses++;
}

void DeviceMemory::pool_begin(PoolId id, bool this_thread_only, uint64_t capture) {
  const std::lock_guard<std::mutex> lock(mutex_);
  retained(id).uses++;
  routes_.push_back({id, std::this_thread::get_id(), !this_thread_only, capture});
}

void DeviceMemory::pool_end(PoolId id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto it = routes_.begin(); it != routes_.end(); ++it) {
    if (it->id == id) {
      routes_.erase(it);
      drop_if_unused(id);
      return;
    }
  }
  TORCH_CHECK(false, "endAllocatePool: not currently recording to mempool_id");
}

void DeviceMemory::pool_release(PoolId id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = private_.find(id);
  if (it == private_.end() || it->second->uses == 0) return;
  it->second->uses--;
  drop_if_unused(id);
}

int DeviceMemory::pool_uses(PoolId id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = private_.find(id);
  return it == private_.end() ? 0 : it->second->uses;
}

void DeviceMemory::drop_if_unused(PoolId id) {
  const auto it = private_.find(id);
  if (it == private_.end() || it->second->uses != 0 || it->second->segments != 0) return;
  // Allocations may still be sent there, by a program that lets go of the pool before it stops sending them.
  if (std::none_of(routes_.begin(), routes_.end(), [&](const Route& r) { return r.id == id; })) private_.erase(it);
}

}  // namespace hostdevice
