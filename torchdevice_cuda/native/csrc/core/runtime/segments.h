// Segments as mappings of host memory, and the lookup of a block by address.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/blocks.h"
#include "runtime/shared_memory.h"

namespace hostdevice {

// Every segment is a multiple of this size and aligned to it.
constexpr size_t kChunk = kSmallSegment;

// `size` is a multiple of kChunk. The mapping is anonymous: memory is used only once it is touched, and the caller
// records it as reserved (host.h). Return null if mapping fails.
char* map_segment(size_t size);
void unmap_segment(char* base, size_t size);

// Finds a block by its address. Freeing knows only the address: CPU code may request raw memory, whose context must be
// the data pointer itself. A two-level table with one entry per chunk leads to the segment, and one slot per 512 bytes
// of the segment leads to the block. Unused parts of the tables take no memory.
//
// Reading takes no lock: the caller holds the memory that it looks up, so the segment stays. Call add(), remove() and
// set() under the lock of the segment's device. If two devices need the same part of the table at once, a
// compare-exchange decides.
class AddressTable {
 public:
  struct Segment {
    char* base;
    size_t size;
    Block** slots;
    SharedRange* shared_range = nullptr;  // if it is shared with other processes
  };

  Segment* find(const void* p) const {
    const auto chunk = reinterpret_cast<uintptr_t>(p) / kChunk;
    if (chunk >> (kTopBits + kLeafBits)) return nullptr;
    const auto* leaf = top_[chunk >> kLeafBits].load(std::memory_order_acquire);
    return leaf ? (*leaf)[chunk & (kLeafSize - 1)].load(std::memory_order_acquire) : nullptr;
  }
  Block* block(const void* p) const {
    auto* s = find(p);
    return s ? s->slots[slot(s, p)] : nullptr;
  }
  void set(const void* p, Block* b) {
    auto* s = find(p);
    s->slots[slot(s, p)] = b;
  }
  // Return false if there is no memory for the slots.
  bool add(char* base, size_t size);
  void remove(char* base);

 private:
  // Addresses of a process have 48 bits, of which 21 are within a chunk.
  static constexpr size_t kLeafBits = 14, kLeafSize = size_t{1} << kLeafBits, kTopBits = 13;
  using Leaf = std::array<std::atomic<Segment*>, kLeafSize>;

  static size_t slot(const Segment* s, const void* p) {
    return static_cast<size_t>(static_cast<const char*>(p) - s->base) / kMinBlock;
  }
  std::atomic<Segment*>& entry(const char* p);

  std::array<std::atomic<Leaf*>, size_t{1} << kTopBits> top_{};
};

// Return this process's table.
inline AddressTable& addresses() {
  static auto* table = new AddressTable;  // leaked: tensors outlive static destruction
  return *table;
}

}  // namespace hostdevice
