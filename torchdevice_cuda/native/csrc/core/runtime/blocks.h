// The data structures of device memory, and the sizes that a program can observe in CUDA's allocator.
//
// A segment is a mapping. It is split into blocks, which form a list by address. A pool holds the free blocks. The lock
// of the device that owns them protects all of this.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "compat.h"
#include "runtime/history.h"
#include "runtime/observer.h"

namespace hostdevice {

constexpr size_t kMinBlock = 512;
constexpr size_t kSmallRequest = size_t{1} << 20;
constexpr size_t kSmallSegment = size_t{2} << 20;
constexpr size_t kLargeSegment = size_t{20} << 20;
constexpr size_t kMinLargeRequest = size_t{10} << 20;
constexpr size_t kRoundLarge = size_t{2} << 20;

inline size_t round_up(size_t n, size_t unit) {
  return (n + unit - 1) / unit * unit;
}
inline size_t round_request(size_t n) {
  return n < kMinBlock ? kMinBlock : round_up(n, kMinBlock);
}

struct Pool;
class ExpandableSegment;

// The fields that order blocks.
struct BlockKey {
  char* ptr = nullptr;
  size_t size = 0;
  size_t requested = 0;
  c10::StreamId stream = 0;
};

struct Block : BlockKey {
  Pool* pool = nullptr;
  Block* prev = nullptr;  // neighbors in the segment, by address
  Block* next = nullptr;
  c10::DeviceIndex device = 0;
  bool mapped = true;           // false: addresses of an expandable segment that have no memory
  bool allocated = false;       // in use by the program
  bool pending = false;         // freed, but another stream still uses it
  int64_t freed_at_search = 0;  // for a free block: its pool's `searches` when it was freed
  ExpandableSegment* expandable = nullptr;
  std::vector<c10::StreamId> used_by;  // streams passed to record_stream()
  // For a block freed in a capture: the captured work of these streams, then of its own stream, at that moment.
  std::vector<uint64_t> work_at_free;
  Context context;
  Context segment_context;  // first block only: where the segment was allocated

  bool is_split() const {
    return prev != nullptr || next != nullptr;
  }
  bool is_free() const {
    return !allocated && !pending;
  }
  // Return whether this block can merge with a neighbor, provided that this block is free.
  bool can_merge(const Block* neighbor) const {
    return neighbor != nullptr && neighbor->is_free() && neighbor->mapped == mapped;
  }
  ObservedBlock observed() const {
    return {ptr, size, device, stream, pool, used_by};
  }
};

struct BlockOrder {
  using is_transparent = void;
  bool operator()(const BlockKey* a, const BlockKey* b) const {
    if (a->stream != b->stream) return a->stream < b->stream;
    if (a->size != b->size) return a->size < b->size;
    return a->ptr < b->ptr;
  }
};

// Orders by address: memory is mapped from the lowest address on.
struct AddressOrder {
  using is_transparent = void;
  bool operator()(const BlockKey* a, const BlockKey* b) const {
    return a->stream != b->stream ? a->stream < b->stream : a->ptr < b->ptr;
  }
};

struct PrivatePool;
struct Pool {
  using Free = std::set<Block*, BlockOrder>;

  bool small = false;
  PrivatePool* owner = nullptr;  // for the two pools of a private pool
  Free free;
  std::set<Block*, AddressOrder> unmapped;  // address ranges of expandable segments without memory
  int64_t searches = 0;                     // counted while old segments are garbage-collected

  void add(Block* b) {
    b->freed_at_search = searches;
    free.insert(b);
  }
  // Add a block and reuse the set node of a removed block, if there is one.
  void add(Block* b, Free::node_type&& node) {
    if (!node) return add(b);
    b->freed_at_search = searches;
    node.value() = b;
    free.insert(std::move(node));
  }
};

// Memory separate from the default pools: that of a MemPool or of a graph.
struct PrivatePool {
  PoolId id;
  Pool small, large;
  int uses = 0;             // reference count
  bool no_split = false;    // do not split its blocks
  bool use_on_oom = false;  // other allocations may use its free blocks when memory is short
  int64_t segments = 0;
  explicit PrivatePool(PoolId name) : id(name) {
    small.small = true;
    small.owner = large.owner = this;
  }
};

}  // namespace hostdevice
