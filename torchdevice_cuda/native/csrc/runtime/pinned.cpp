#include "runtime/pinned.h"

#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/device.h"

namespace hostdevice {
namespace {

struct Pinned {
  std::mutex mutex;              // protects all of it
  std::map<char*, size_t> live;  // pointer -> block size
  std::map<size_t, std::vector<char*>> cached;
  HostStats stats;
};
Pinned& pinned() {
  static auto* p = new Pinned;  // leaked: tensors outlive static destruction
  return *p;
}
// At least a page, and a power of two.
size_t pinned_size(size_t n) {
  size_t s = 4096;
  while (s < n) s <<= 1;
  return s;
}

void* map_pinned(size_t n) {
  void* p = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

void delete_pinned(void* context) {
  auto& p = pinned();
  std::lock_guard<std::mutex> lock(p.mutex);
  auto it = p.live.find(static_cast<char*>(context));
  if (it == p.live.end()) return;
  p.stats.allocation.decrease(1);
  p.stats.allocated_bytes.decrease(it->second);
  p.cached[it->second].push_back(it->first);
  p.live.erase(it);
}

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    check_fork();
    if (bytes == 0) return {nullptr, cpu()};
    auto& p = pinned();
    const size_t n = pinned_size(bytes);
    std::lock_guard<std::mutex> lock(p.mutex);
    char* at = nullptr;
    auto& spare = p.cached[n];
    if (!spare.empty()) {
      at = spare.back();
      spare.pop_back();
    } else {
      at = static_cast<char*>(map_pinned(n));
      TORCH_CHECK_WITH(OutOfMemoryError, at, "out of host memory: could not pin ", format_size(n));
      p.stats.num_host_alloc++;
      p.stats.segment.increase(1);
      p.stats.reserved_bytes.increase(n);
    }
    p.live.emplace(at, n);
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
  auto* c = static_cast<char*>(const_cast<void*>(pointer));
  auto it = p.live.upper_bound(c);
  if (it == p.live.begin()) return false;
  --it;
  return c < it->first + it->second;
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
    for (char* at : c.second) {
      munmap(at, c.first);
      p.stats.num_host_free++;
      p.stats.segment.decrease(1);
      p.stats.reserved_bytes.decrease(c.first);
    }
  }
  p.cached.clear();
}
void host_reset_peak_stats() {
  each_host_stat([](Stat& s) { s.reset_peak(); });
}
void host_reset_accumulated_stats() {
  each_host_stat([](Stat& s) { s.reset_accumulated(); });
}

void lock_pinned_for_fork() {
  pinned().mutex.lock();
}
void unlock_pinned_after_fork() {
  pinned().mutex.unlock();
}

}  // namespace hostdevice
