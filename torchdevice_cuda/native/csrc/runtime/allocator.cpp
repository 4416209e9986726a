#include "runtime/allocator.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include <sys/mman.h>

#include "runtime/streams.h"

namespace hostdevice {
namespace {

// The numbers a program can observe in CUDA's allocator.
constexpr size_t kMinBlock = 512;
constexpr size_t kSmallRequest = size_t{1} << 20;
constexpr size_t kSmallSegment = size_t{2} << 20;
constexpr size_t kLargeSegment = size_t{20} << 20;
constexpr size_t kMinLargeRequest = size_t{10} << 20;
constexpr size_t kRoundLarge = size_t{2} << 20;
constexpr size_t kOneExabyte = size_t{1} << 60;

size_t round_request(size_t n) {
  return n < kMinBlock ? kMinBlock : (n + kMinBlock - 1) / kMinBlock * kMinBlock;
}
size_t segment_size(size_t rounded) {
  if (rounded <= kSmallRequest) return kSmallSegment;
  if (rounded < kMinLargeRequest) return kLargeSegment;
  return (rounded + kRoundLarge - 1) / kRoundLarge * kRoundLarge;
}

constexpr size_t kChunk = kSmallSegment;  // every segment is a whole number of these, and aligned to one

// n is a multiple of kChunk. Anonymous memory: nothing is used until it is touched.
char* map_memory(size_t n) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_NORESERVE
  flags |= MAP_NORESERVE;
#endif
  void* mapped = mmap(nullptr, n + kChunk, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* const start = static_cast<char*>(mapped);
  const size_t before = (kChunk - reinterpret_cast<uintptr_t>(start) % kChunk) % kChunk;
  if (before) munmap(start, before);
  if (before != kChunk) munmap(start + before + n, kChunk - before);
  return start + before;
}
void unmap_memory(char* p, size_t n) {
  munmap(p, n);
}

int64_t wall_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
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
};

struct BlockOrder {
  using is_transparent = void;
  bool operator()(const BlockKey* a, const BlockKey* b) const {
    if (a->stream != b->stream) return a->stream < b->stream;
    if (a->size != b->size) return a->size < b->size;
    return a->ptr < b->ptr;
  }
};

// From an address to its block, without a lock: freeing knows only the address, because CPU code may ask for raw
// memory, whose context must be the memory itself. A two-level table over 48-bit addresses, one entry per chunk, leads
// to the segment, and a slot per 512 bytes of the segment to the block. Tables are only ever touched where used.
class AddressTable {
 public:
  struct Segment {
    char* base;
    size_t size;
    Block** slots;
  };

  Segment* find(const void* p) const {
    const auto a = reinterpret_cast<uintptr_t>(p) / kChunk;
    if (a >> (kTopBits + kLeafBits)) return nullptr;
    const auto* leaf = top_[a >> kLeafBits].load(std::memory_order_acquire);
    return leaf ? (*leaf)[a & (kLeafSize - 1)].load(std::memory_order_acquire) : nullptr;
  }
  Block* block(const void* p) const {
    auto* s = find(p);
    return s ? s->slots[slot(s, p)] : nullptr;
  }
  void set(const void* p, Block* b) {
    auto* s = find(p);
    s->slots[slot(s, p)] = b;
  }
  bool add(char* base, size_t size) {
    auto* slots = static_cast<Block**>(std::calloc(size / kMinBlock, sizeof(Block*)));
    if (!slots) return false;
    auto* s = new Segment{base, size, slots};
    for (size_t off = 0; off < size; off += kChunk) entry(base + off).store(s, std::memory_order_release);
    return true;
  }
  void remove(char* base) {
    auto* s = find(base);
    for (size_t off = 0; off < s->size; off += kChunk) entry(base + off).store(nullptr, std::memory_order_release);
    std::free(s->slots);
    delete s;
  }

 private:
  static constexpr size_t kLeafBits = 14, kLeafSize = size_t{1} << kLeafBits, kTopBits = 13;
  using Leaf = std::array<std::atomic<Segment*>, kLeafSize>;

  static size_t slot(const Segment* s, const void* p) {
    return static_cast<size_t>(static_cast<const char*>(p) - s->base) / kMinBlock;
  }
  std::atomic<Segment*>& entry(const char* p) {
    const auto a = reinterpret_cast<uintptr_t>(p) / kChunk;
    auto& top = top_[a >> kLeafBits];
    auto* leaf = top.load(std::memory_order_acquire);
    if (!leaf) {
      auto* made = new Leaf();
      if (top.compare_exchange_strong(leaf, made))
        leaf = made;
      else
        delete made;
    }
    return (*leaf)[a & (kLeafSize - 1)];
  }

  std::array<std::atomic<Leaf*>, size_t{1} << kTopBits> top_{};
};
AddressTable& addresses() {
  static auto* t = new AddressTable;
  return *t;
}

struct PrivatePool;
struct Pool {
  bool small = false;
  PrivatePool* owner = nullptr;
  std::set<Block*, BlockOrder> free;
};
struct PrivatePool {
  PoolId id;
  Pool small, large;
  int uses = 1;
  int64_t segments = 0;
  explicit PrivatePool(PoolId i) : id(i) {
    small.small = true;
    small.owner = large.owner = this;
  }
};
struct Routing {
  PoolId id;
  std::thread::id thread;
  bool any_thread;
};

struct History {
  std::atomic<bool> on{false};
  std::atomic<size_t> limit{0};
  std::atomic<ContextSource> source{nullptr};
  std::atomic<bool> on_free{false};
};
History g_history;

class DeviceMemory {
 public:
  explicit DeviceMemory(c10::DeviceIndex index) : index_(index) {
    small_.small = true;
  }

  Block* allocate(size_t bytes, c10::StreamId stream);
  void release(Block* block);
  void record_use(Block* block, c10::StreamId stream);

  Stats stats() {
    std::lock_guard<std::mutex> lock(mutex_);
    return stats_;
  }
  template <class F>
  void each_stat(F f) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto* a :
         {&stats_.allocation, &stats_.segment, &stats_.active, &stats_.inactive_split, &stats_.allocated_bytes,
          &stats_.reserved_bytes, &stats_.active_bytes, &stats_.inactive_split_bytes, &stats_.requested_bytes})
      for (auto& s : *a) f(s);
    f(stats_.oversize_allocations);
    f(stats_.oversize_segments);
  }
  void reset_counts() {
    std::lock_guard<std::mutex> lock(mutex_);
    stats_.num_alloc_retries = stats_.num_ooms = stats_.num_sync_all_streams = 0;
    stats_.num_device_alloc = stats_.num_device_free = 0;
  }
  void set_limit(size_t n) {
    std::lock_guard<std::mutex> lock(mutex_);
    limit_ = n;
  }
  void set_fraction(double f) {
    std::lock_guard<std::mutex> lock(mutex_);
    fraction_ = f;
  }
  double fraction() {
    std::lock_guard<std::mutex> lock(mutex_);
    return fraction_;
  }
  std::pair<size_t, size_t> info() {
    std::lock_guard<std::mutex> lock(mutex_);
    return {free_bytes(), limit_};
  }
  void empty_cache(PoolId pool) {
    std::lock_guard<std::mutex> lock(mutex_);
    settle_pending();
    release_cached(pool);
  }
  std::vector<SegmentInfo> snapshot();
  std::vector<TraceEntry> trace() {
    std::lock_guard<std::mutex> lock(mutex_);
    return {trace_.begin(), trace_.end()};
  }
  void clear_trace() {
    std::lock_guard<std::mutex> lock(mutex_);
    trace_.clear();
  }
  void pool_begin(PoolId id, bool this_thread_only) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = private_.find(id);
    if (it == private_.end())
      private_.emplace(id, std::make_unique<PrivatePool>(id));
    else
      it->second->uses++;
    routes_.push_back({id, std::this_thread::get_id(), !this_thread_only});
  }
  void pool_end(PoolId id) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = routes_.begin(); it != routes_.end(); ++it) {
      if (it->id == id) {
        routes_.erase(it);
        return;
      }
    }
    TORCH_CHECK(false, "endAllocatePool: not currently recording to mempool_id");
  }
  void pool_release(PoolId id) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = private_.find(id);
    if (it == private_.end()) return;
    if (--it->second->uses <= 0) {
      release_cached(id);
      drop_if_unused(id);
    }
  }
  int pool_uses(PoolId id) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = private_.find(id);
    return it == private_.end() ? 0 : it->second->uses;
  }

  std::mutex mutex_;

 private:
  size_t free_bytes() const {
    const auto used = static_cast<size_t>(stats_.reserved_bytes[kAll].current);
    return limit_ > used ? limit_ - used : 0;
  }
  Pool& pool_for(size_t rounded) {
    const bool small = rounded <= kSmallRequest;
    if (C10_UNLIKELY(!routes_.empty())) {
      const auto me = std::this_thread::get_id();
      for (auto it = routes_.rbegin(); it != routes_.rend(); ++it) {
        if (it->any_thread || it->thread == me) {
          auto& p = *private_.at(it->id);
          return small ? p.small : p.large;
        }
      }
    }
    return small ? small_ : large_;
  }
  template <class F>
  void count(const Pool& pool, F f) {
    f(kAll);
    f(pool.small ? kSmallPool : kLargePool);
  }
  Block* make_block() {
    if (spare_.empty()) return new Block;
    auto* b = spare_.back();
    spare_.pop_back();
    return b;
  }
  void drop_block(Block* b) {
    *b = Block{};
    spare_.push_back(b);
  }
  Block* new_segment(Pool& pool, size_t size, c10::StreamId stream, bool retry, const Context& context);
  void merge_next(Block* b);
  void return_to_pool(Block* b);
  void settle_pending();
  bool release_cached(PoolId pool);
  void release_segment(Pool& pool, Block* b);
  void drop_if_unused(PoolId id) {
    auto it = private_.find(id);
    if (it != private_.end() && it->second->uses <= 0 && it->second->segments == 0) private_.erase(it);
  }
  [[noreturn]] void out_of_memory(size_t wanted, std::unique_lock<std::mutex>& lock, const Context& context);
  void note(Action action, uintptr_t address, size_t size, c10::StreamId stream, const Pool* pool, Context context) {
    if (C10_LIKELY(!g_history.on.load(std::memory_order_relaxed))) return;
    const size_t limit = g_history.limit.load(std::memory_order_relaxed);
    if (limit == 0) return;
    while (trace_.size() >= limit) trace_.pop_front();
    const PoolId id = pool && pool->owner ? pool->owner->id : PoolId{0, 0};
    trace_.push_back({action, address, size, stream, wall_us(), id, std::move(context)});
  }

  c10::DeviceIndex index_;
  size_t limit_ = size_t{16} << 30;
  double fraction_ = 1.0;
  bool fraction_set() const {
    return fraction_ < 1.0;
  }
  Stats stats_;
  Pool small_, large_;
  std::map<PoolId, std::unique_ptr<PrivatePool>> private_;
  std::vector<Routing> routes_;
  std::map<char*, Block*> segments_;
  std::vector<Block*> pending_;
  std::vector<Block*> spare_;
  std::deque<TraceEntry> trace_;
};

Context gather(bool wanted) {
  if (C10_LIKELY(!wanted)) return nullptr;
  auto source = g_history.source.load(std::memory_order_relaxed);
  return source ? source() : nullptr;
}

Block* DeviceMemory::allocate(size_t bytes, c10::StreamId stream) {
  // Before the lock: gathering may need the interpreter, whose owner may be waiting for this lock.
  Context context = gather(g_history.on.load(std::memory_order_relaxed));
  std::unique_lock<std::mutex> lock(mutex_);
  if (C10_UNLIKELY(!pending_.empty())) settle_pending();
  const size_t size = round_request(bytes);
  Pool& pool = pool_for(size);

  Block* b = nullptr;
  const BlockKey key{nullptr, size, 0, stream};
  decltype(pool.free)::node_type node;  // of the block taken, for the remainder to go in
  auto it = pool.free.lower_bound(&key);
  if (it != pool.free.end() && (*it)->stream == stream) {
    b = *it;
    node = pool.free.extract(it);
  } else {
    const size_t want = segment_size(size);
    b = new_segment(pool, want, stream, false, context);
    if (!b && release_cached({0, 0})) b = new_segment(pool, want, stream, true, context);
    if (!b) {
      stats_.num_ooms++;
      out_of_memory(want, lock, context);
    }
  }

  const bool was_split = b->is_split();
  const size_t left = b->size - size;
  if (pool.small ? left >= kMinBlock : left > kSmallRequest) {
    Block* rest = make_block();
    rest->ptr = b->ptr + size;
    rest->size = left;
    rest->stream = b->stream;
    rest->pool = b->pool;
    rest->device = b->device;
    rest->prev = b;
    rest->next = b->next;
    if (rest->next) rest->next->prev = rest;
    b->next = rest;
    b->size = size;
    if (node) {
      node.value() = rest;
      pool.free.insert(std::move(node));
    } else {
      pool.free.insert(rest);
    }
    count(pool, [&](StatKind k) {
      if (was_split) {
        stats_.inactive_split_bytes[k].decrease(static_cast<int64_t>(size));
      } else {
        stats_.inactive_split_bytes[k].increase(static_cast<int64_t>(left));
        stats_.inactive_split[k].increase(1);
      }
    });
  } else if (was_split) {
    count(pool, [&](StatKind k) {
      stats_.inactive_split_bytes[k].decrease(static_cast<int64_t>(b->size));
      stats_.inactive_split[k].decrease(1);
    });
  }
  b->allocated = true;
  b->requested = bytes;
  addresses().set(b->ptr, b);
  const auto n = static_cast<int64_t>(b->size);
  count(pool, [&](StatKind k) {
    stats_.allocation[k].increase(1);
    stats_.allocated_bytes[k].increase(n);
    stats_.active[k].increase(1);
    stats_.active_bytes[k].increase(n);
    stats_.requested_bytes[k].increase(static_cast<int64_t>(bytes));
  });
  if (C10_UNLIKELY(g_history.on.load(std::memory_order_relaxed))) {
    b->context = context;
    note(Action::Alloc, reinterpret_cast<uintptr_t>(b->ptr), bytes, stream, &pool, std::move(context));
  }
  const auto allocated = stats_.allocated_bytes[kAll].current, reserved = stats_.reserved_bytes[kAll].current;
  lock.unlock();
  c10::reportMemoryUsageToProfiler(
      b->ptr, n, static_cast<size_t>(allocated), static_cast<size_t>(reserved), device(index_));
  return b;
}

Block* DeviceMemory::new_segment(Pool& pool, size_t size, c10::StreamId stream, bool retry, const Context& context) {
  if (retry) stats_.num_alloc_retries++;
  const auto reserved = static_cast<size_t>(stats_.reserved_bytes[kAll].current);
  const auto allowed = fraction_set() ? static_cast<size_t>(fraction_ * static_cast<double>(limit_)) : limit_;
  if (size > allowed || reserved > allowed - size) return nullptr;
  char* p = map_memory(size);
  if (!p) return nullptr;
  if (!addresses().add(p, size)) {
    unmap_memory(p, size);
    return nullptr;
  }
  Block* b = make_block();
  b->ptr = p;
  b->size = size;
  b->stream = stream;
  b->pool = &pool;
  b->device = index_;
  b->segment_context = context;
  segments_.emplace(b->ptr, b);
  if (pool.owner) pool.owner->segments++;
  count(pool, [&](StatKind k) {
    stats_.segment[k].increase(1);
    stats_.reserved_bytes[k].increase(static_cast<int64_t>(size));
  });
  stats_.num_device_alloc++;
  note(Action::SegmentAlloc, reinterpret_cast<uintptr_t>(p), size, stream, &pool, context);
  return b;
}

void DeviceMemory::out_of_memory(size_t wanted, std::unique_lock<std::mutex>& lock, const Context& context) {
  const auto allocated = static_cast<size_t>(stats_.allocated_bytes[kAll].current);
  const auto reserved = static_cast<size_t>(stats_.reserved_bytes[kAll].current);
  const size_t total = limit_, free = free_bytes();
  const bool limited = fraction_set();
  const auto allowed = static_cast<size_t>(fraction_ * static_cast<double>(limit_));
  note(Action::Oom, free, wanted, 0, nullptr, context);
  lock.unlock();
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(wanted), allocated, reserved, device(index_));
  if constexpr (kIsCuda) {
    TORCH_CHECK_WITH(
        OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ", format_size(wanted), ". GPU ",
        static_cast<int>(index_), " has a total capacity of ", format_size(total), " of which ", format_size(free),
        " is free. Including non-PyTorch memory, this process has ", format_size(total - free), " memory in use. ",
        limited ? format_size(allowed) + " allowed; " : std::string(), "Of the allocated memory ",
        format_size(allocated), " is allocated by PyTorch, and ", format_size(reserved - allocated),
        " is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
        "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory "
        "Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)");
  } else {
    TORCH_CHECK(
        false, "MPS backend out of memory (MPS allocated: ", format_size(allocated),
        ", other allocations: ", format_size(reserved - allocated),
        ", max allowed: ", format_size(limited ? allowed : total), "). Tried to allocate ", format_size(wanted),
        " on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations "
        "(may cause system failure).");
  }
}

// b absorbs its right neighbour, which is not in any free set.
void DeviceMemory::merge_next(Block* b) {
  Block* n = b->next;
  b->size += n->size;
  b->next = n->next;
  if (b->next) b->next->prev = b;
  drop_block(n);
}

void DeviceMemory::return_to_pool(Block* b) {
  Pool& pool = *b->pool;
  note(Action::FreeCompleted, reinterpret_cast<uintptr_t>(b->ptr), b->requested, b->stream, &pool, b->context);
  b->context.reset();
  const auto n = static_cast<int64_t>(b->size);
  const auto requested = static_cast<int64_t>(b->requested);
  b->allocated = b->pending = false;
  int64_t split_blocks = 0, split_bytes = 0;
  decltype(pool.free)::node_type node;  // of a block merged away, for the merged one to go in
  if (b->next && !b->next->allocated && !b->next->pending) {
    node = pool.free.extract(b->next);
    split_blocks--;
    split_bytes -= static_cast<int64_t>(b->next->size);
    merge_next(b);
  }
  if (b->prev && !b->prev->allocated && !b->prev->pending) {
    Block* p = b->prev;
    node = pool.free.extract(p);
    split_blocks--;
    split_bytes -= static_cast<int64_t>(p->size);
    merge_next(p);
    b = p;
  }
  b->requested = 0;
  if (b->is_split()) {
    split_blocks++;
    split_bytes += static_cast<int64_t>(b->size);
  }
  if (node) {
    node.value() = b;
    pool.free.insert(std::move(node));
  } else {
    pool.free.insert(b);
  }
  count(pool, [&](StatKind k) {
    auto apply = [](Stat& s, int64_t v) {
      if (v > 0) s.increase(v);
      if (v < 0) s.decrease(-v);
    };
    apply(stats_.inactive_split[k], split_blocks);
    apply(stats_.inactive_split_bytes[k], split_bytes);
    stats_.active[k].decrease(1);
    stats_.active_bytes[k].decrease(n);
    stats_.requested_bytes[k].decrease(requested);
  });
}

void DeviceMemory::release(Block* b) {
  Context context =
      gather(g_history.on.load(std::memory_order_relaxed) && g_history.on_free.load(std::memory_order_relaxed));
  char* const ptr = b->ptr;
  const auto n = static_cast<int64_t>(b->size);
  int64_t allocated = 0, reserved = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    Pool& pool = *b->pool;
    count(pool, [&](StatKind k) {
      stats_.allocation[k].decrease(1);
      stats_.allocated_bytes[k].decrease(n);
    });
    note(
        Action::FreeRequested, reinterpret_cast<uintptr_t>(ptr), b->requested, b->stream, &pool,
        context ? context : b->context);
    bool busy = false;
    for (auto s : b->used_by) busy = busy || !stream_idle(stream_state(index_, s));
    if (C10_UNLIKELY(busy)) {
      b->allocated = false;
      b->pending = true;
      pending_.push_back(b);
    } else {
      b->used_by.clear();
      return_to_pool(b);
    }
    allocated = stats_.allocated_bytes[kAll].current;
    reserved = stats_.reserved_bytes[kAll].current;
  }
  c10::reportMemoryUsageToProfiler(
      ptr, -n, static_cast<size_t>(allocated), static_cast<size_t>(reserved), device(index_));
}

void DeviceMemory::record_use(Block* b, c10::StreamId stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (stream == b->stream) return;
  if (std::find(b->used_by.begin(), b->used_by.end(), stream) == b->used_by.end()) b->used_by.push_back(stream);
}

void DeviceMemory::settle_pending() {
  for (size_t i = 0; i < pending_.size();) {
    Block* b = pending_[i];
    bool busy = false;
    for (auto s : b->used_by) busy = busy || !stream_idle(stream_state(index_, s));
    if (busy) {
      i++;
      continue;
    }
    pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(i));
    b->used_by.clear();
    return_to_pool(b);
  }
}

void DeviceMemory::release_segment(Pool& pool, Block* b) {
  note(Action::SegmentFree, reinterpret_cast<uintptr_t>(b->ptr), b->size, b->stream, &pool, b->segment_context);
  count(pool, [&](StatKind k) {
    stats_.segment[k].decrease(1);
    stats_.reserved_bytes[k].decrease(static_cast<int64_t>(b->size));
  });
  stats_.num_device_free++;
  if (pool.owner) pool.owner->segments--;
  segments_.erase(b->ptr);
  addresses().remove(b->ptr);
  unmap_memory(b->ptr, b->size);
  drop_block(b);
}

// {0, 0}: the common pools, and private ones nobody uses any more.
bool DeviceMemory::release_cached(PoolId only) {
  bool any = false;
  auto sweep = [&](Pool& pool) {
    for (auto it = pool.free.begin(); it != pool.free.end();) {
      Block* b = *it;
      if (b->is_split()) {
        ++it;
        continue;
      }
      it = pool.free.erase(it);
      release_segment(pool, b);
      any = true;
    }
  };
  if (only == PoolId{0, 0}) {
    sweep(small_);
    sweep(large_);
  }
  std::vector<PoolId> ids;
  for (auto& p : private_) {
    if (p.first == only || (only == PoolId{0, 0} && p.second->uses <= 0)) {
      sweep(p.second->small);
      sweep(p.second->large);
      ids.push_back(p.first);
    }
  }
  for (auto& id : ids) drop_if_unused(id);
  return any;
}

std::vector<SegmentInfo> DeviceMemory::snapshot() {
  Context context = gather(g_history.on.load(std::memory_order_relaxed));
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<SegmentInfo> out;
  size_t total = 0;
  for (auto& s : segments_) {
    SegmentInfo info;
    info.device = index_;
    info.address = reinterpret_cast<uintptr_t>(s.first);
    info.stream = s.second->stream;
    info.large = !s.second->pool->small;
    if (s.second->pool->owner) info.pool = s.second->pool->owner->id;
    info.context = s.second->segment_context;
    for (Block* b = s.second; b; b = b->next) {
      BlockInfo bi;
      bi.address = reinterpret_cast<uintptr_t>(b->ptr);
      bi.size = b->size;
      bi.requested = b->requested;
      bi.context = b->context;
      info.total += b->size;
      if (b->allocated) {
        bi.state = "active_allocated";
        info.allocated += b->size;
      } else if (b->pending) {
        bi.state = "active_pending_free";
      }
      if (b->allocated || b->pending) {
        info.active += b->size;
        info.requested += b->requested;
      }
      info.blocks.push_back(std::move(bi));
    }
    total += info.total;
    out.push_back(std::move(info));
  }
  note(Action::Snapshot, 0, total, 0, nullptr, std::move(context));
  return out;
}

DeviceMemory& memory_of(c10::DeviceIndex index) {
  static std::array<std::atomic<DeviceMemory*>, kMaxDevices> all{};
  static std::mutex mutex;
  auto& slot = all.at(static_cast<size_t>(index));
  if (auto* m = slot.load(std::memory_order_acquire)) return *m;
  std::lock_guard<std::mutex> lock(mutex);
  if (auto* m = slot.load(std::memory_order_acquire)) return *m;
  auto* m = new DeviceMemory(index);  // leaked: tensors outlive static destruction
  slot.store(m, std::memory_order_release);
  return *m;
}

// CUDA answers a bad index for statistics with its own words rather than an invalid ordinal.
DeviceMemory& checked(c10::DeviceIndex index) {
  if (index < 0) index = t_current_device;
  TORCH_CHECK(index < device_count(), "Invalid device argument ", static_cast<int>(index), ": did you call init?");
  return memory_of(index);
}

// The context of device memory is the memory, as raw allocation demands.
void delete_memory(void* pointer) {
  Block* b = addresses().block(pointer);
  memory_of(b->device).release(b);
}

thread_local c10::DeviceIndex t_allocate_on = -1;
thread_local bool t_numbers = false;

struct DeviceAllocatorImpl final : AllocatorBase {
  c10::DataPtr allocate(size_t bytes) override {
    return hostdevice::allocate(bytes, t_current_device);
  }
  void copy_data(void* dest, const void* src, std::size_t n) const override {
    std::memcpy(dest, src, n);
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return &delete_memory;
  }
#if HOSTDEVICE_HAS_DEVICE_ALLOCATOR
  bool initialized() override {
    return device_count() > 0;
  }
  void emptyCache(c10::MempoolId_t pool = {0, 0}) override {
    hostdevice::empty_cache({pool.first, pool.second});
  }
  void recordStream(const c10::DataPtr& ptr, c10::Stream stream) override {
    hostdevice::record_stream(ptr, stream.device_index(), stream.id());
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    const Stats s = hostdevice::memory_stats(index);
    c10::CachingDeviceAllocator::DeviceStats out;
    auto copy = [](const StatArray& from, c10::CachingAllocator::StatArray& to) {
      for (size_t i = 0; i < kStatKinds; i++) {
        to[i].current = from[i].current;
        to[i].peak = from[i].peak;
        to[i].allocated = from[i].allocated;
        to[i].freed = from[i].freed;
      }
    };
    copy(s.allocation, out.allocation);
    copy(s.segment, out.segment);
    copy(s.active, out.active);
    copy(s.inactive_split, out.inactive_split);
    copy(s.allocated_bytes, out.allocated_bytes);
    copy(s.reserved_bytes, out.reserved_bytes);
    copy(s.active_bytes, out.active_bytes);
    copy(s.inactive_split_bytes, out.inactive_split_bytes);
    copy(s.requested_bytes, out.requested_bytes);
    out.num_alloc_retries = s.num_alloc_retries;
    out.num_ooms = s.num_ooms;
    out.num_sync_all_streams = s.num_sync_all_streams;
    out.num_device_alloc = s.num_device_alloc;
    out.num_device_free = s.num_device_free;
    return out;
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override {
    hostdevice::reset_accumulated_stats(index);
  }
  void resetPeakStats(c10::DeviceIndex index) override {
    hostdevice::reset_peak_stats(index);
  }
  // Not an override everywhere: older versions do not ask.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) {
    return hostdevice::memory_info(index);
  }
#endif
};

// The process's CPU allocator: the stock one, except inside AllocateOnDevice.
c10::Allocator* g_stock_cpu = nullptr;

// The largest single element, a complex128.
constexpr size_t kOneElement = 16;

// Raw memory may be given back after the call that took it, so whose it is is decided by where it lies.
void delete_raw_cpu(void* pointer) {
  if (addresses().find(pointer))
    delete_memory(pointer);
  else
    g_stock_cpu->raw_deleter()(pointer);
}

struct CpuAllocatorImpl final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    const auto index = t_allocate_on;
    if (C10_LIKELY(index < 0) || (t_numbers && bytes <= kOneElement)) return g_stock_cpu->allocate(bytes);
    auto p = hostdevice::allocate(bytes, index);
    p.unsafe_set_device(cpu());
    return p;
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return &delete_raw_cpu;
  }
  bool is_simple_data_ptr(const c10::DataPtr& p) const override {
    return p.get() == p.get_context();
  }
  void copy_data(void* dest, const void* src, std::size_t n) const override {
    g_stock_cpu->copy_data(dest, src, n);
  }
};

DeviceAllocatorImpl& device_impl() {
  static auto* a = new DeviceAllocatorImpl;
  return *a;
}
CpuAllocatorImpl& cpu_impl() {
  static auto* a = new CpuAllocatorImpl;
  return *a;
}

}  // namespace

std::string format_size(uint64_t size) {
  std::ostringstream os;
  os.precision(2);
  os << std::fixed;
  if (size <= 1024) {
    os << size << " bytes";
  } else if (size <= 1048576) {
    os << static_cast<double>(size) / 1024.0 << " KiB";
  } else if (size <= 1073741824ULL) {
    os << static_cast<double>(size) / 1048576.0 << " MiB";
  } else {
    os << static_cast<double>(size) / 1073741824.0 << " GiB";
  }
  return os.str();
}

c10::DataPtr allocate(size_t bytes, c10::DeviceIndex index) {
  mark_used();
  check_index(index);
  if (bytes == 0) return {nullptr, device(index)};
  if constexpr (kIsCuda) {
    if (C10_UNLIKELY(bytes >= kOneExabyte))
      TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate more than 1EB memory.");
  } else {
    // No buffer of an Apple GPU is as large as its memory, and its refusals are plain errors.
    TORCH_CHECK(bytes < memory_info(index).second, "Invalid buffer size: ", format_size(bytes));
  }
  Block* b = memory_of(index).allocate(bytes, current_stream(index));
  return {b->ptr, b->ptr, &delete_memory, device(index)};
}

bool is_ours(const c10::DataPtr& p) {
  return p.get_deleter() == &delete_memory;
}

c10::Allocator* device_allocator() {
  return &device_impl();
}
c10::Allocator* cpu_allocator() {
  return &cpu_impl();
}

void install_allocators() {
  // Above the stock registrations (priority 0), so that a CUDA build's own allocator gives way too.
  c10::SetAllocator(kType, device_allocator(), 10);
  g_stock_cpu = c10::GetCPUAllocator();
  c10::SetCPUAllocator(cpu_allocator(), 10);
}

AllocateOnDevice::AllocateOnDevice(c10::DeviceIndex index, bool numbers)
    : saved_(t_allocate_on), saved_numbers_(t_numbers) {
  t_allocate_on = index;
  t_numbers = numbers;
}
AllocateOnDevice::~AllocateOnDevice() {
  t_allocate_on = saved_;
  t_numbers = saved_numbers_;
}

c10::DeviceIndex exchange_allocate_on(c10::DeviceIndex index) {
  const auto old = t_allocate_on;
  t_allocate_on = index;
  return old;
}

void set_memory_limit(c10::DeviceIndex index, size_t bytes) {
  memory_of(index).set_limit(bytes);
}
void set_memory_fraction(c10::DeviceIndex index, double fraction) {
  TORCH_CHECK(fraction >= 0 && fraction <= 1, "invalid fraction:", fraction, ". Please set within [0, 1].");
  checked(index).set_fraction(fraction);
}
double memory_fraction(c10::DeviceIndex index) {
  return checked(index).fraction();
}
Stats memory_stats(c10::DeviceIndex index) {
  return checked(index).stats();
}
void reset_peak_stats(c10::DeviceIndex index) {
  checked(index).each_stat([](Stat& s) { s.peak = s.current; });
}
void reset_accumulated_stats(c10::DeviceIndex index) {
  auto& m = checked(index);
  m.each_stat([](Stat& s) { s.allocated = s.freed = 0; });
  m.reset_counts();
}
std::pair<size_t, size_t> memory_info(c10::DeviceIndex index) {
  return memory_of(resolve(index)).info();
}
void empty_cache(PoolId pool) {
  for (int i = 0; i < device_count(); i++) memory_of(static_cast<c10::DeviceIndex>(i)).empty_cache(pool);
}
std::vector<SegmentInfo> segments(c10::DeviceIndex index) {
  return checked(index).snapshot();
}
std::vector<TraceEntry> trace(c10::DeviceIndex index) {
  return checked(index).trace();
}
void record_history(bool enabled, size_t max_entries, ContextSource source, bool contexts_on_free) {
  g_history.source = source;
  g_history.on_free = contexts_on_free;
  g_history.limit = max_entries;
  g_history.on = enabled;
  if (enabled) return;
  for (int i = 0; i < device_count(); i++) memory_of(static_cast<c10::DeviceIndex>(i)).clear_trace();
}
bool history_enabled() {
  return g_history.on;
}

void* raw_allocate(c10::DeviceIndex index, size_t bytes, c10::StreamId stream) {
  mark_used();
  index = resolve(index);
  if (bytes == 0) return nullptr;
  return memory_of(index).allocate(bytes, stream)->ptr;
}

void raw_delete(void* pointer) {
  if (!pointer) return;
  Block* b = addresses().block(pointer);
  TORCH_CHECK(b && b->ptr == pointer && b->allocated, "invalid device pointer: ", pointer);
  delete_memory(pointer);
}

void record_stream(const c10::DataPtr& pointer, c10::DeviceIndex index, c10::StreamId stream) {
  if (!is_ours(pointer)) return;
  Block* b = addresses().block(pointer.get());
  if (b->device == index) memory_of(index).record_use(b, stream);
}

c10::DeviceIndex device_of_address(const void* pointer) {
  auto* s = addresses().find(pointer);
  // The first slot of a segment is always set: its first block was handed out before any other.
  return s ? s->slots[0]->device : c10::DeviceIndex(-1);
}
std::pair<void*, size_t> segment_of_address(const void* pointer) {
  auto* s = addresses().find(pointer);
  return s ? std::pair<void*, size_t>{s->base, s->size} : std::pair<void*, size_t>{nullptr, 0};
}

void pool_begin(c10::DeviceIndex index, PoolId pool, bool this_thread_only) {
  memory_of(resolve(index)).pool_begin(pool, this_thread_only);
}
void pool_end(c10::DeviceIndex index, PoolId pool) {
  memory_of(resolve(index)).pool_end(pool);
}
void pool_release(c10::DeviceIndex index, PoolId pool) {
  memory_of(resolve(index)).pool_release(pool);
}
int pool_use_count(c10::DeviceIndex index, PoolId pool) {
  return memory_of(resolve(index)).pool_uses(pool);
}

// ---- pinned host memory -------------------------------------------------------------------------------------------
namespace {

// Rounded to a power of two and cached until asked otherwise, as CUDA's pinned allocator does.
struct Pinned {
  std::mutex mutex;
  std::map<char*, size_t> live;  // pointer -> block size
  std::map<size_t, std::vector<char*>> cached;
  HostStats stats;
};
Pinned& pinned() {
  static auto* p = new Pinned;
  return *p;
}
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
  p.stats.allocated_bytes.decrease(static_cast<int64_t>(it->second));
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
      p.stats.reserved_bytes.increase(static_cast<int64_t>(n));
    }
    p.live.emplace(at, n);
    p.stats.allocation.increase(1);
    p.stats.allocated_bytes.increase(static_cast<int64_t>(n));
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
      p.stats.reserved_bytes.decrease(static_cast<int64_t>(c.first));
    }
  }
  p.cached.clear();
}
void host_reset_peak_stats() {
  each_host_stat([](Stat& s) { s.peak = s.current; });
}
void host_reset_accumulated_stats() {
  each_host_stat([](Stat& s) { s.allocated = s.freed = 0; });
}

void lock_all_for_fork() {
  for (int i = 0; i < device_count(); i++) memory_of(static_cast<c10::DeviceIndex>(i)).mutex_.lock();
  pinned().mutex.lock();
}
void unlock_all_after_fork() {
  pinned().mutex.unlock();
  for (int i = device_count() - 1; i >= 0; i--) memory_of(static_cast<c10::DeviceIndex>(i)).mutex_.unlock();
}

}  // namespace hostdevice
