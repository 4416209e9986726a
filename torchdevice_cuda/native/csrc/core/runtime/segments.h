// Segments as the machine sees them: mappings of host memory, and the way from an address to its block.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/blocks.h"
#include "runtime/shared_memory.h"

namespace hostdevice {

// Every segment is a whole number of these, and aligned to one.
constexpr size_t kChunk = kSmallSegment;

// `size` is a multiple of kChunk. Anonymous memory: nothing is used until it is touched, and what is promised of it is
// the caller's to say (host.h). Null if there is none.
char* map_segment(size_t size);
void unmap_segment(char* base, size_t size);

// From an address to its block: freeing knows only the address, because CPU code may ask for raw memory, whose context
// must be the memory itself. A two-level table, one entry a chunk, leads to the segment, and a slot per 512 bytes of
// the segment to the block. Tables are only ever touched where used.
//
// Reading takes no lock: whoever asks holds the memory that it asks about, so its segment stays. add(), remove() and
// set() are called under the lock of the device whose segment it is; two devices that need the same part of the table
// at once race for it with a compare-exchange.
class AddressTable {
 public:
  struct Segment {
    char* base;
    size_t size;
    Block** slots;
    Piece* piece = nullptr;  // where it is shared with other processes
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
  // False if there is no memory for the slots.
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

// The one of this process.
inline AddressTable& addresses() {
  static auto* table = new AddressTable;  // leaked: tensors outlive static destruction
  return *table;
}

}  // namespace hostdevice
