#include "runtime/segments.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>

#include "runtime/device.h"
#include "runtime/host.h"
#include "runtime/mps_storage.h"
#include "runtime/observer.h"

namespace hostdevice {

namespace {

// Address hints for the next large and the next small segment: after the last one of its kind, like CUDA. The system
// maps from high to low addresses, but cached blocks are reused lowest first: a program would get other addresses from
// the cache than at first. Small segments are separate: a kernel that runs far past the end of a small tensor is
// outside of all segments, as on a GPU.
std::atomic<char*> g_next[2]{};

constexpr size_t kRoom = size_t{1} << 40;

// Find an address range for many segments in a row. Nothing stays mapped.
char* first_address() {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_NORESERVE
  flags |= MAP_NORESERVE;
#endif
  void* const found = mmap(nullptr, kRoom, PROT_NONE, flags, -1, 0);
  if (found == MAP_FAILED) return nullptr;  // limited address space: use the system's addresses
  munmap(found, kRoom);
  return static_cast<char*>(found);
}

}  // namespace

char* map_segment(size_t size) {
  static char* const first = first_address();
  const bool small = size == kSmallSegment;
  char* const next = g_next[small].load();
  char* const wanted = next || !first ? next : first + (small ? kRoom / 2 : 0);
  int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_NORESERVE
  flags |= MAP_NORESERVE;
#endif
  // Map one chunk more, so that it contains an aligned range; unmap the rest.
  void* mapped = mmap(wanted, size + kChunk, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* const start = static_cast<char*>(mapped);
  const size_t before = (kChunk - reinterpret_cast<uintptr_t>(start) % kChunk) % kChunk;
  if (before) munmap(start, before);
  munmap(start + before + size, kChunk - before);
  if (first && start >= wanted) g_next[small] = start + before + size;
  if constexpr (!kIsCuda) add_mps_segment(start + before, size);
  return start + before;
}

void unmap_segment(char* base, size_t size) {
  record_released(base, size);
  observe([&](StreamObserver& o) { o.unmap(base, size); });
  if constexpr (!kIsCuda) remove_mps_segment(base);
  munmap(base, size);
}

bool AddressTable::add(char* base, size_t size) {
  auto* slots = static_cast<Block**>(std::calloc(size / kMinBlock, sizeof(Block*)));
  if (!slots) return false;
  auto* s = new Segment{base, size, slots};
  for (size_t offset = 0; offset < size; offset += kChunk) entry(base + offset).store(s, std::memory_order_release);
  return true;
}

void AddressTable::remove(char* base) {
  auto* s = find(base);
  for (size_t offset = 0; offset < s->size; offset += kChunk)
    entry(base + offset).store(nullptr, std::memory_order_release);
  std::free(s->slots);
  if (s->shared_range) free_shared_range(*s->shared_range);
  delete s->shared_range;
  delete s;
}

std::atomic<AddressTable::Segment*>& AddressTable::entry(const char* p) {
  const auto chunk = reinterpret_cast<uintptr_t>(p) / kChunk;
  auto& top = top_[chunk >> kLeafBits];
  auto* leaf = top.load(std::memory_order_acquire);
  if (!leaf) {
    auto* made = new Leaf();
    if (top.compare_exchange_strong(leaf, made))
      leaf = made;
    else
      delete made;
  }
  return (*leaf)[chunk & (kLeafSize - 1)];
}

}  // namespace hostdevice
