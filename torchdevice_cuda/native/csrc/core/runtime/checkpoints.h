// What a private pool looks like at some time, to be put back later.
//
// Graphs that share a pool are recorded one after the other, and replayed in any order: replaying changes no book.
// Before another one is recorded behind some that were replayed, the pool is made to look as it did when they were
// recorded.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>

#include <cstddef>
#include <string>
#include <vector>

#include "compat.h"

namespace hostdevice {

struct PoolCheckpoint {
  struct Piece {
    char* ptr;
    size_t size;
    bool allocated;
    bool mapped;
  };
  using Segment = std::vector<Piece>;

  c10::DeviceIndex device;
  PoolId pool;
  std::vector<Segment> segments;
};

// What was taken back, and what is handed out now, to nobody yet.
struct Restored {
  std::vector<char*> freed, created;
};

PoolCheckpoint checkpoint_pool(c10::DeviceIndex device, PoolId pool);
// `stale`: storages whose memory is taken back, and which free nothing any more. `live`: storages that own nothing and
// are to own what is handed out at their address. What is handed out elsewhere is for raw_delete().
void restore_pool(
    const PoolCheckpoint& checkpoint, const std::vector<c10::StorageImpl*>& stale,
    const std::vector<c10::StorageImpl*>& live);

// Whether it is this allocator's memory that the storage frees.
bool owns_device_memory(const c10::StorageImpl* storage);
// Frees the memory under a storage that goes on pointing there.
void free_under(c10::StorageImpl* storage);

}  // namespace hostdevice
