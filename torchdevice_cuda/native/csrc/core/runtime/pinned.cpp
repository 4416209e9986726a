#include "runtime/pinned.h"

#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/activities.h"
#include "runtime/captures.h"
#include "runtime/device.h"
#include "runtime/failure.h"
#include "runtime/observer.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

struct Use {
  size_t size = 0;
  int64_t until_ns = 0;  // when the last copy is done
};
struct CachedBlock {
  char* at;
  int64_t from_ns;  // when it may be reused
};

struct Pinned {
  std::mutex mutex;                    // protects all members
  std::map<char*, Use> live;           // by address
  std::map<char*, size_t> registered;  // size by address
  std::map<size_t, std::vector<CachedBlock>> cached;
  size_t max_rounded_size = std::numeric_limits<size_t>::max(), max_cached_size = std::numeric_limits<size_t>::max();
  HostStats stats;
};
Pinned& pinned() {
  static auto* p = new Pinned;  // leaked: tensors outlive static destruction
  return *p;
}
// Round up to a power of two of at least a page, unless the block is too large for that.
size_t pinned_size(const Pinned& p, size_t n) {
  if (n > p.max_rounded_size || n > p.max_cached_size) return n;
  size_t s = 4096;
  while (s < n) s <<= 1;
  return s;
}

constexpr int64_t kMicrosecond = 1000;  // ns

void* map_pinned(Pinned& p, size_t n) {
  const RuntimeCall call("cudaHostAlloc");
  const auto began = now_ns();
  void* const at = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  p.stats.alloc_time.add((now_ns() - began) / kMicrosecond);
  return at;
}

void unmap_pinned(Pinned& p, char* at, size_t n) {
  const RuntimeCall call("cudaFreeHost");
  const auto began = now_ns();
  munmap(at, n);
  p.stats.free_time.add((now_ns() - began) / kMicrosecond);
  p.stats.num_host_free++;
  p.stats.segment.decrease(1);
  p.stats.reserved_bytes.decrease(n);
}

void delete_pinned(void* context) {
  auto& p = pinned();
  std::lock_guard<std::mutex> lock(p.mutex);
  auto it = p.live.find(static_cast<char*>(context));
  if (it == p.live.end()) return;
  p.stats.allocation.decrease(1);
  p.stats.allocated_bytes.decrease(it->second.size);
  observe([&](StreamObserver& o) { o.free_pinned(it->first, it->second.size); });
  const Use use = it->second;
  // Unmapping need not wait: a copy has finished when it returns, and only its simulated completion may be in the
  // future.
  if (use.size > p.max_cached_size)
    unmap_pinned(p, it->first, use.size);
  else
    p.cached[use.size].push_back({it->first, use.until_ns});
  p.live.erase(it);
}

// Sort the blocks: those with unfinished copies first, then the free ones, then those whose copies have finished since
// the last call. Allocation takes the last one.
void sort_by_availability(std::vector<CachedBlock>& cached) {
  const auto now = now_ns();
  const auto busy = [now](const CachedBlock& s) { return s.from_ns > now; };
  const auto known = [](const CachedBlock& s) { return s.from_ns == 0; };
  const auto first = std::stable_partition(cached.begin(), cached.end(), busy);
  std::stable_partition(first, cached.end(), known);
  std::for_each(first, cached.end(), [](CachedBlock& s) { s.from_ns = 0; });
}

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    check_fork();
    if (bytes == 0) return {nullptr, cpu()};
    mark_context(t_current_device);
    auto& p = pinned();
    std::lock_guard<std::mutex> lock(p.mutex);
    const size_t n = pinned_size(p, bytes);
    char* at = nullptr;
    auto& cached = p.cached[n];
    sort_by_availability(cached);
    if (!cached.empty() && cached.back().from_ns == 0) {
      at = cached.back().at;
      cached.pop_back();
    } else {
      if (kIsCuda)
        refuse_unsafe_call_unless_capturing(stream_state(t_current_device, current_stream(t_current_device)));
      check_before_wait(t_current_device);
      at = static_cast<char*>(map_pinned(p, n));
      TORCH_CHECK_WITH(OutOfMemoryError, at, "out of host memory: could not pin ", format_size(n));
      p.stats.num_host_alloc++;
      p.stats.segment.increase(1);
      p.stats.reserved_bytes.increase(n);
    }
    p.live.emplace(at, Use{n, 0});
    observe([&](StreamObserver& o) { o.allocate_pinned(at, n); });
    p.stats.allocation.increase(1);
    p.stats.allocated_bytes.increase(n);
    return {at, at, &delete_pinned, cpu()};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return &delete_pinned;
  }
  void copy_data(void* dest, const void* src, std::size_t n) const override {
    std::memcpy(dest, src, n);
  }
};

size_t size_of(size_t size) {
  return size;
}
size_t size_of(const Use& use) {
  return use.size;
}
// Return the block that contains an address, or the end.
template <class Blocks>
auto block_with(Blocks& blocks, const void* pointer) {
  auto* c = static_cast<char*>(const_cast<void*>(pointer));
  auto it = blocks.upper_bound(c);
  if (it == blocks.begin()) return blocks.end();
  --it;
  return c < it->first + size_of(it->second) ? it : blocks.end();
}

template <class F>
void each_host_stat(F f) {
  auto& p = pinned();
  std::lock_guard<std::mutex> lock(p.mutex);
  for (auto* s : {&p.stats.allocation, &p.stats.allocated_bytes, &p.stats.segment, &p.stats.reserved_bytes}) f(*s);
}

}  // namespace

c10::Allocator* pinned_allocator() {
  static auto* a = new PinnedAllocator;
  return a;
}
bool is_pinned(const void* pointer) {
  auto& p = pinned();
  std::lock_guard<std::mutex> lock(p.mutex);
  return block_with(p.live, pointer) != p.live.end() || block_with(p.registered, pointer) != p.registered.end();
}
bool is_pinned_block(const void* pointer) {
  auto& p = pinned();
  std::lock_guard<std::mutex> lock(p.mutex);
  return block_with(p.live, pointer) != p.live.end();
}
void extend_pinned_use(const void* pointer, int64_t ns) {
  auto& p = pinned();
  std::lock_guard<std::mutex> lock(p.mutex);
  const auto it = block_with(p.live, pointer);
  if (it != p.live.end()) it->second.until_ns = std::max(it->second.until_ns, ns);
}
void register_pinned(void* pointer, size_t bytes) {
  auto& p = pinned();
  std::lock_guard<std::mutex> lock(p.mutex);
  p.registered[static_cast<char*>(pointer)] = bytes;
  observe([&](StreamObserver& o) { o.allocate_pinned(static_cast<char*>(pointer), bytes); });
}
void unregister_pinned(void* pointer) {
  auto& p = pinned();
  std::lock_guard<std::mutex> lock(p.mutex);
  const auto found = p.registered.find(static_cast<char*>(pointer));
  if (found == p.registered.end()) return;
  observe([&](StreamObserver& o) { o.free_pinned(found->first, found->second); });
  p.registered.erase(found);
}
void set_pinned_limits(size_t max_rounded, size_t max_cached) {
  auto& p = pinned();
  std::lock_guard<std::mutex> lock(p.mutex);
  p.max_rounded_size = max_rounded;
  p.max_cached_size = max_cached;
}
HostStats host_stats() {
  auto& p = pinned();
  std::lock_guard<std::mutex> lock(p.mutex);
  return p.stats;
}
void host_empty_cache() {
  auto& p = pinned();
  std::lock_guard<std::mutex> lock(p.mutex);
  for (auto& c : p.cached) {
    for (const auto& cached : c.second) unmap_pinned(p, cached.at, c.first);
  }
  p.cached.clear();
}
void host_reset_peak_stats() {
  each_host_stat([](Stat& s) { s.reset_peak(); });
}
void host_reset_accumulated_stats() {
  each_host_stat([](Stat& s) { s.reset_accumulated(); });
  auto& p = pinned();
  std::lock_guard<std::mutex> lock(p.mutex);
  p.stats.num_host_alloc = p.stats.num_host_free = 0;
  p.stats.alloc_time = p.stats.free_time = {};
}

void lock_pinned_for_fork() {
  pinned().mutex.lock();
}
void unlock_pinned_after_fork() {
  pinned().mutex.unlock();
}

}  // namespace hostdevice
