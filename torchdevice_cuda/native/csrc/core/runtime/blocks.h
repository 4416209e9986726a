// What device memory is cut into, and the sizes a program can observe in CUDA's allocator.
//
// A segment is a mapping; blocks are its pieces, in a list by address. A pool holds the free ones. Everything here is
// protected by the lock of the device it belongs to.
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

// What blocks are ordered by.
struct BlockKey {
  char* ptr = nullptr;
  size_t size = 0;
  size_t requested = 0;
  c10::StreamId stream = 0;
};

struct Block : BlockKey {
  Pool* pool = nullptr;
  Block* prev = nullptr;  // neighbours in the segment, by address
  Block* next = nullptr;
  c10::DeviceIndex device = 0;
  bool mapped = true;      // false: addresses of an expandable segment without memory behind them
  bool allocated = false;  // handed out
  bool pending = false;    // given back, but another stream still uses it
  int64_t aged_at = 0;     // of a free one: how often its pool had been searched when it came
  ExpandableSegment* expandable = nullptr;
  std::vector<c10::StreamId> used_by;  // record_stream()
  // Given back in a capture: how far it is in these streams, and in its own, in this order.
  std::vector<uint64_t> used_until;
  Context context;
  Context segment_context;  // of the first block: where the segment was made

  bool is_split() const {
    return prev != nullptr || next != nullptr;
  }
  bool is_free() const {
    return !allocated && !pending;
  }
  // Whether a neighbour can become one with it, if it is free itself.
  bool joins(const Block* neighbour) const {
    return neighbour != nullptr && neighbour->is_free() && neighbour->mapped == mapped;
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

// By address: memory is mapped from the lowest on.
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
  PrivatePool* owner = nullptr;  // of a private pool's halves
  Free free;
  std::set<Block*, AddressOrder> unmapped;  // of expandable segments
  int64_t searches = 0;                     // counted while old segments are collected

  void add(Block* b) {
    b->aged_at = searches;
    free.insert(b);
  }
  // Into the place of a block that was taken out, if there is one.
  void add(Block* b, Free::node_type&& place) {
    if (!place) return add(b);
    b->aged_at = searches;
    place.value() = b;
    free.insert(std::move(place));
  }
};

// Memory apart from the rest: a MemPool's, or a graph's.
struct PrivatePool {
  PoolId id;
  Pool small, large;
  int uses = 0;             // holders
  bool no_split = false;    // its blocks are not cut
  bool use_on_oom = false;  // others may take its free blocks when memory is short
  int64_t segments = 0;
  explicit PrivatePool(PoolId name) : id(name) {
    small.small = true;
    small.owner = large.owner = this;
  }
};

}  // namespace hostdevice
