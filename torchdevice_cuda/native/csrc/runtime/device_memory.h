// The memory of one device: CUDA's way of taking, splitting, merging and caching it, and its books.
//
// Sizes, pools and books follow what a program can see of CUDA's allocator, so that memory_stats(), snapshots and
// out-of-memory errors mean the same. Every member is protected by the device's one lock, which every public function
// takes; functions that may run foreign code (the profiler, the history's source) run it without the lock.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/blocks.h"
#include "runtime/history.h"
#include "runtime/limits.h"
#include "runtime/segments.h"
#include "runtime/snapshot.h"
#include "runtime/statistics.h"

namespace hostdevice {

class DeviceMemory {
 public:
  explicit DeviceMemory(c10::DeviceIndex index) : index_(index) {
    small_.small = true;
  }

  // A block of at least that many bytes; throws if there is none.
  Block* allocate(size_t bytes, c10::StreamId stream);
  void release(Block* block);
  // The same by address; false if nothing of this device's is handed out there.
  bool release_at(char* address);
  // The block is used on another stream than its own: giving it back waits for that one too.
  void record_use(Block* block, c10::StreamId stream);

  Stats stats();
  std::pair<size_t, size_t> in_use();  // allocated, reserved
  void reset_peak_stats();
  void reset_accumulated_stats();
  void set_limit(size_t bytes);
  void set_fraction(double fraction);
  double fraction();
  std::pair<size_t, size_t> info();  // free, total

  // {0, 0}: the common pools, and private ones nobody holds any more; else that one, if nobody holds it.
  void empty_cache(PoolId pool);
  std::vector<SegmentInfo> snapshot();
  std::vector<TraceEntry> trace();
  void clear_trace();

  // {base, size} of the segment that holds this address; {nullptr, 0} if none of this device's does.
  std::pair<void*, size_t> segment_of(const void* address);

  // A pool is made by its first holder. What the last one leaves goes back with the next empty_cache(), or when memory
  // is short.
  void pool_retain(PoolId id);
  // One holder more, whose allocations go there from now on.
  void pool_begin(PoolId id, bool this_thread_only, uint64_t capture = 0);
  void pool_end(PoolId id);
  void pool_release(PoolId id);
  int pool_uses(PoolId id);

  // Held across fork(), so that the child inherits books that are in order.
  void lock_for_fork() {
    mutex_.lock();
  }
  void unlock_after_fork() {
    mutex_.unlock();
  }

 private:
  // Allocations that go to a private pool: a thread's, or everybody's.
  struct Route {
    PoolId id;
    std::thread::id thread;
    bool any_thread;
    uint64_t capture;  // of streams that take part in it; 0: of any
  };
  using Lock = std::unique_lock<std::mutex>;

  // All of these are called with the lock held.
  size_t allocated() const {
    return static_cast<size_t>(stats_.allocated_bytes[kAll].current);
  }
  size_t reserved() const {
    return static_cast<size_t>(stats_.reserved_bytes[kAll].current);
  }
  Pool& pool_for(size_t rounded, c10::StreamId stream) {
    const bool small = rounded <= kSmallRequest;
    if (C10_UNLIKELY(!routes_.empty())) {
      const auto me = std::this_thread::get_id();
      for (auto it = routes_.rbegin(); it != routes_.rend(); ++it) {
        if (it->capture ? takes_part(stream, it->capture) : it->any_thread || it->thread == me) {
          auto& p = *private_.at(it->id);
          return small ? p.small : p.large;
        }
      }
    }
    return small ? small_ : large_;
  }
  bool takes_part(c10::StreamId stream, uint64_t capture) const;
  Block* new_segment(Pool& pool, size_t size, c10::StreamId stream, bool retry, const Context& context);
  void give_back(Block* b, Context context, Lock& lock);  // which it unlocks
  const AddressTable::Segment* segment_at(const void* address) const;
  PrivatePool& retained(PoolId id);
  // b absorbs its right neighbour, which is not in any free set.
  void merge_next(Block* b);
  void return_to_pool(Block* b);
  // Is there work in front of it on a stream that uses it besides its own?
  bool is_busy(const Block* b) const;
  void settle_pending();
  bool release_cached(PoolId pool);
  void release_segment(Pool& pool, Block* b);
  void drop_if_unused(PoolId id);
  // Gives the lock back first.
  [[noreturn]] void out_of_memory(size_t wanted, Lock& lock, const Context& context);

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
  void note(Action action, uintptr_t address, size_t size, c10::StreamId stream, const Pool* pool, Context context) {
    if (C10_LIKELY(!history_enabled())) return;
    const PoolId id = pool && pool->owner ? pool->owner->id : PoolId{0, 0};
    trace_.add({action, address, size, stream, 0, id, std::move(context)});
  }

  const c10::DeviceIndex index_;
  std::mutex mutex_;
  Limits limits_;
  Stats stats_;
  Pool small_, large_;
  std::map<PoolId, std::unique_ptr<PrivatePool>> private_;
  std::vector<Route> routes_;
  std::map<char*, Block*> segments_;
  std::vector<Block*> pending_;  // given back, while another stream still uses them
  std::vector<Block*> spare_;    // to be used again
  Trace trace_;
};

// The memory of a device, made when first asked for.
DeviceMemory& memory_of(c10::DeviceIndex index);

}  // namespace hostdevice
