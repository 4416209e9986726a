// Queries and settings of a device's memory: statistics, limits, snapshots, private pools.
#include <c10/util/Exception.h>

#include <algorithm>

#include "runtime/device_memory.h"

namespace hostdevice {

Stats DeviceMemory::stats() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

int64_t DeviceMemory::rejections() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return rejections_;
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
  stats_.num_device_alloc = stats_.num_device_free = rejections_ = 0;
}

void DeviceMemory::set_limit(size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  limits_.total = bytes;
}

void DeviceMemory::set_fraction(double fraction) {
  const std::lock_guard<std::mutex> lock(mutex_);
  limits_.fraction = fraction;
}

void DeviceMemory::set_options(const Options& options) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!configured_) stats_.max_split_size = static_cast<int64_t>(options.max_split);
  configured_ = true;
  options_ = options;
  options_.update_rounding();
  // Blocks of expandable segments remain when the option is turned off.
  is_plain_ = is_plain_ && options_.is_plain();
}

double DeviceMemory::fraction() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return limits_.is_reduced() ? static_cast<double>(limits_.allowed()) / static_cast<double>(limits_.total) : 1.0;
}

std::pair<size_t, size_t> DeviceMemory::info() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {limits_.free(reserved() + uncached_), limits_.total};
}

void DeviceMemory::empty_cache(PoolId pool) {
  const Context context = context_of_free();
  const std::lock_guard<std::mutex> lock(mutex_);
  release_cached(pool, context);
}

std::vector<TraceEntry> DeviceMemory::trace() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return trace_.entries();
}

void DeviceMemory::clear_trace() {
  const std::lock_guard<std::mutex> lock(mutex_);
  trace_.clear();
}

std::vector<SegmentInfo> DeviceMemory::snapshot(PoolId only) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<SegmentInfo> out;
  size_t active = 0;
  for (auto& s : segments_) {
    const Pool* pool = s.second->pool;
    if (!pool || (only != PoolId{0, 0} && id_of(pool) != only)) continue;
    // Report each contiguous mapped range of an expandable segment as one segment.
    bool follows = false;
    for (const Block* b = s.second; b; b = b->next) {
      const bool begins = b->mapped && !follows;
      follows = b->mapped;
      if (begins) {
        SegmentInfo info;
        info.device = index_;
        info.address = reinterpret_cast<uintptr_t>(b->ptr);
        info.stream = b->stream;
        info.large = !pool->small;
        info.expandable = b->expandable != nullptr;
        info.pool = id_of(pool);
        info.context = b->segment_context;
        out.push_back(std::move(info));
      }
      if (b->mapped) active += add_to_snapshot(*b, out.back());
    }
  }
  if (history_enabled()) add_trace_entry(Action::Snapshot, 0, active, 0, only, nullptr);
  return out;
}

size_t DeviceMemory::add_to_snapshot(const Block& b, SegmentInfo& in) {
  BlockInfo info;
  info.address = reinterpret_cast<uintptr_t>(b.ptr);
  info.size = b.size;
  info.requested = b.requested;
  info.context = b.context;
  in.total += b.size;
  if (b.allocated) {
    info.state = "active_allocated";
    in.allocated += b.size;
  } else if (b.pending) {
    info.state = "active_pending_free";
  }
  const size_t active = b.allocated || b.pending ? b.size : 0;
  if (active) {
    in.active += active;
    in.requested += b.requested;
  }
  in.blocks.push_back(std::move(info));
  return active;
}

Context DeviceMemory::context_at(const void* address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Block* b = segment_at(address) ? addresses().block(address) : nullptr;
  return b && b->allocated && b->ptr == address ? b->context : nullptr;
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

std::optional<std::pair<void*, size_t>> DeviceMemory::block_near(const void* address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto* s = segment_at(address);
  if (!s) return std::nullopt;
  std::pair<void*, size_t> found{nullptr, 0};
  for (const Block* b = segments_.at(s->base); b; b = b->next) {
    if (found.first && b->ptr > address) break;
    if (!b->is_free()) found = {b->ptr, b->requested};
  }
  return found;
}

// ---- private pools ------------------------------------------------------------------------------------------------

PrivatePool& DeviceMemory::get_or_create_pool(PoolId id) {
  auto& pool = private_[id];
  if (!pool) pool = std::make_unique<PrivatePool>(id);
  return *pool;
}

void DeviceMemory::pool_retain(PoolId id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  get_or_create_pool(id).uses++;
}

void DeviceMemory::pool_begin(PoolId id, bool this_thread_only, uint64_t capture) {
  const std::lock_guard<std::mutex> lock(mutex_);
  get_or_create_pool(id).uses++;
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

void DeviceMemory::pool_no_split(PoolId id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  get_or_create_pool(id).no_split = true;
}

void DeviceMemory::pool_use_on_oom(PoolId id, bool use) {
  const std::lock_guard<std::mutex> lock(mutex_);
  get_or_create_pool(id).use_on_oom = use;
}

void DeviceMemory::drop_if_unused(PoolId id) {
  const auto it = private_.find(id);
  if (it == private_.end() || it->second->uses != 0 || it->second->segments != 0) return;
  // A program may release the pool before it stops routing allocations to it.
  if (std::none_of(routes_.begin(), routes_.end(), [&](const Route& r) { return r.id == id; })) private_.erase(it);
}

}  // namespace hostdevice
