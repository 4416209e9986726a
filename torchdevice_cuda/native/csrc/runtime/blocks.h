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
inline size_t segment_size(size_t rounded) {
  if (rounded <= kSmallRequest) return kSmallSegment;
  if (rounded < kMinLargeRequest) return kLargeSegment;
  return round_up(rounded, kRoundLarge);
}

struct Pool;

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
  bool allocated = false;              // handed out
  bool pending = false;                // given back, but another stream still uses it
  std::vector<c10::StreamId> used_by;  // record_stream()
  Context context;
  Context segment_context;  // of the first block: where the segment was made

  bool is_split() const {
    return prev != nullptr || next != nullptr;
  }
  bool is_free() const {
    return !allocated && !pending;
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

struct PrivatePool;
struct Pool {
  bool small = false;
  PrivatePool* owner = nullptr;  // of a private pool's halves
  std::set<Block*, BlockOrder> free;
};

// Memory apart from the rest: a MemPool's, or a graph's.
struct PrivatePool {
  PoolId id;
  Pool small, large;
  int uses = 0;  // holders
  int64_t segments = 0;
  explicit PrivatePool(PoolId name) : id(name) {
    small.small = true;
    small.owner = large.owner = this;
  }
};

}  // namespace hostdevice
