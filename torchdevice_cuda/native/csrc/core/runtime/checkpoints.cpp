#include "runtime/checkpoints.h"

#include <c10/util/Exception.h>

#include <unordered_map>
#include <unordered_set>

#include "runtime/allocator.h"
#include "runtime/device_memory.h"

namespace hostdevice {

PoolCheckpoint DeviceMemory::checkpoint(PoolId id) {
  const Context context = context_of_event();
  const std::lock_guard<std::mutex> lock(mutex_);
  return_idle_blocks(context);
  TORCH_CHECK(private_.count(id), "Could not find pool of id");
  PoolCheckpoint out{index_, id, {}};
  for (const auto& s : segments_) {
    if (!s.second->pool || id_of(s.second->pool) != id) continue;
    PoolCheckpoint::Segment states;
    for (const Block* b = s.second; b; b = b->next) states.push_back({b->ptr, b->size, b->allocated, b->mapped});
    // Drop trailing addresses without memory: there may be fewer of them at the restore.
    while (!states.empty() && !states.back().mapped) states.pop_back();
    if (!states.empty()) out.segments.push_back(std::move(states));
  }
  return out;
}

Restored DeviceMemory::restore(const PoolCheckpoint& checkpoint, size_t most) {
  const Context context = context_of_event();
  const std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK(private_.count(checkpoint.pool), "Could not find private pool id");
  return_idle_blocks(context);
  std::unordered_set<const char*> again;
  for (const auto& segment : checkpoint.segments)
    for (const auto& state : segment)
      if (state.allocated) again.insert(state.ptr);
  Restored done;
  std::vector<Block*> allocated;
  size_t gone = 0;
  for (const auto& s : segments_) {
    if (!s.second->pool || id_of(s.second->pool) != checkpoint.pool) continue;
    for (Block* b = s.second; b; b = b->next) {
      if (!b->allocated) continue;
      allocated.push_back(b);
      if (!again.count(b->ptr)) gone++;
    }
  }
  TORCH_CHECK(gone <= most, "Any stale tensors which are being manually freed must be passed to set checkpoint");
  for (Block* b : allocated) {
    // Free the block at once: nothing reports when the other streams are done with it.
    b->used_by.clear();
    done.freed.push_back(b->ptr);
    mark_freed(b, context);
  }
  for (const auto& segment : checkpoint.segments) restore_segment(segment, context, done);
  return done;
}

void DeviceMemory::restore_segment(const PoolCheckpoint::Segment& segment, const Context& context, Restored& done) {
  const auto found = segments_.find(segment.front().ptr);
  const bool whole = found != segments_.end();
  TORCH_CHECK(whole && found->second->pool, " could not find ", static_cast<void*>(segment.front().ptr));
  // Allocate all blocks first, so that no free block merges with its neighbor; then free those that were free.
  std::vector<Block*> blocks;
  Block* b = found->second;
  for (const auto& state : segment) {
    TORCH_CHECK(
        b && b->is_free() && b->ptr == state.ptr && b->mapped == state.mapped && b->size >= state.size,
        "the memory at ", static_cast<void*>(state.ptr), " is no longer what it was when the pool was checkpointed");
    if (state.mapped) {
      mark_allocated(b, state.size, state.size, b->size > state.size, b->pool->free.extract(b), context);
      blocks.push_back(b);
    }
    b = b->next;
  }
  size_t next = 0;
  for (const auto& state : segment) {
    if (!state.mapped) continue;
    Block* const made = blocks[next++];
    if (state.allocated)
      done.created.push_back(made->ptr);
    else
      mark_freed(made, context);
  }
}

PoolCheckpoint checkpoint_pool(c10::DeviceIndex index, PoolId pool) {
  return memory_of(resolve(index)).checkpoint(pool);
}

void restore_pool(
    const PoolCheckpoint& checkpoint, const std::vector<c10::StorageImpl*>& stale,
    const std::vector<c10::StorageImpl*>& live) {
  const std::unordered_set<c10::StorageImpl*> ended(stale.begin(), stale.end());
  const Restored done = memory_of(checkpoint.device).restore(checkpoint, ended.size());
  const std::unordered_set<const void*> freed(done.freed.begin(), done.freed.end());
  const auto free_memory = device_allocator()->raw_deleter();
  for (auto* storage : ended) {
    TORCH_CHECK(freed.count(storage->data_ptr().get()), "a stale storage does not belong to the restored pool");
    TORCH_CHECK(
        storage->_mutable_data_ptr_no_checks().compare_exchange_deleter(free_memory, &c10::detail::deleteNothing),
        "Unexpected deleter function on storage, could not swap function");
  }
  std::unordered_map<const void*, c10::StorageImpl*> owners;
  for (auto* storage : live) owners[storage->data_ptr().get()] = storage;
  for (auto* pointer : done.created) {
    const auto owner = owners.find(pointer);
    if (owner == owners.end()) continue;
    TORCH_CHECK(owner->second->data_ptr().get_context() == nullptr, " Not expecting deleter function");
    owner->second->set_data_ptr_noswap({pointer, pointer, free_memory, device(checkpoint.device)});
  }
}

bool owns_device_memory(const c10::StorageImpl* storage) {
  return storage->data_ptr().get_deleter() == device_allocator()->raw_deleter();
}

void free_storage_memory(c10::StorageImpl* storage) {
  auto& data = storage->_mutable_data_ptr_no_checks();
  TORCH_CHECK(
      data.compare_exchange_deleter(device_allocator()->raw_deleter(), &c10::detail::deleteNothing),
      "Expected standard deleter");
  raw_delete(data.get());
}

}  // namespace hostdevice
