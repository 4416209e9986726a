// Snapshots of a private pool, to be restored later.
//
// Graphs that share a pool are captured one after another and replayed in any order; a replay does not change the
// allocator's state. Before another graph is captured after some replays, the pool is restored to its state from when
// the replayed graphs were captured.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>

#include <cstddef>
#include <string>
#include <vector>

#include "compat.h"

namespace hostdevice {

struct PoolCheckpoint {
  struct BlockState {
    char* ptr;
    size_t size;
    bool allocated;
    bool mapped;
  };
  using Segment = std::vector<BlockState>;

  c10::DeviceIndex device;
  PoolId pool;
  std::vector<Segment> segments;
};

// The blocks that were freed, and the blocks that are now allocated but have no owner yet.
struct Restored {
  std::vector<char*> freed, created;
};

PoolCheckpoint checkpoint_pool(c10::DeviceIndex device, PoolId pool);
// `stale`: storages whose memory is freed; their deleters no longer free anything. `live`: storages that own no memory
// and become the owners of the blocks allocated at their addresses. Free the other allocated blocks with raw_delete().
void restore_pool(
    const PoolCheckpoint& checkpoint, const std::vector<c10::StorageImpl*>& stale,
    const std::vector<c10::StorageImpl*>& live);

// Return whether the storage frees memory of this allocator.
bool owns_device_memory(const c10::StorageImpl* storage);
// Free the memory of a storage, which keeps its pointer.
void free_storage_memory(c10::StorageImpl* storage);

}  // namespace hostdevice
