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
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/blocks.h"
#include "runtime/checkpoints.h"
#include "runtime/history.h"
#include "runtime/limits.h"
#include "runtime/options.h"
#include "runtime/segments.h"
#include "runtime/snapshot.h"
#include "runtime/statistics.h"

namespace hostdevice {

// A block in memory that other processes can map.
struct SharedBlock {
  Piece segment;
  size_t offset;
};

class DeviceMemory {
 public:
  explicit DeviceMemory(c10::DeviceIndex index) : index_(index) {
    small_.small = true;
    stats_.max_split_size = -1;
  }

  // A block of at least that many bytes; throws if there is none.
  Block* allocate(size_t bytes, c10::StreamId stream);
  // One that was never free before and never will be again, and is in no book:
  // torch.cuda.caching_allocator_enable(False)
  Block* allocate_uncached(size_t bytes, c10::StreamId stream);
  void release(Block* block);
  // The same by address; false if nothing of this device's is handed out there.
  bool release_at(char* address);
  // The block is used on another stream than its own: giving it back waits for that one too.
  void record_stream(Block* block, c10::StreamId stream);
  // Where other processes find the block that begins at this address; none if there is no such block.
  std::optional<SharedBlock> share(char* address);

  Stats stats();
  int64_t rejections();                // which releases before 2.13 have no place for among the others
  std::pair<size_t, size_t> in_use();  // allocated, reserved
  void reset_peak_stats();
  void reset_accumulated_stats();
  void set_limit(size_t bytes);
  void set_fraction(double fraction);
  void set_options(const Options& options);
  double fraction();
  std::pair<size_t, size_t> info();  // free, total

  // {0, 0}: the common pools, and private ones nobody holds any more; else that one, if nobody holds it.
  void empty_cache(PoolId pool);
  // {0, 0}: of all pools.
  std::vector<SegmentInfo> snapshot(PoolId pool);
  // What was attached to the block that is handed out at this address, if anything is.
  Context context_at(const void* address);
  std::vector<TraceEntry> trace();
  void clear_trace();

  // {base, size} of the segment that holds this address; {nullptr, 0} if none of this device's does.
  std::pair<void*, size_t> segment_of(const void* address);
  // {begin, requested bytes} of the allocation at or nearest to this address in its segment, if that is this device's.
  std::optional<std::pair<void*, size_t>> block_near(const void* address);

  // A pool is made by its first holder. What the last one leaves goes back with the next empty_cache(), or when memory
  // is short.
  void pool_retain(PoolId id);
  // One holder more, whose allocations go there from now on.
  void pool_begin(PoolId id, bool this_thread_only, uint64_t capture = 0);
  void pool_end(PoolId id);
  void pool_release(PoolId id);
  int pool_uses(PoolId id);
  void pool_no_split(PoolId id);
  void pool_use_on_oom(PoolId id, bool use);

  // How a pool is cut, and what of it is handed out; and the same again, with all that was handed out since taken back.
  PoolCheckpoint checkpoint(PoolId id);
  // Nothing happens if more than so many blocks would be nobody's then.
  Restored restore(const PoolCheckpoint& checkpoint, size_t most);

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
  // A free block; null if there is none. `place` is that of the block in the free ones, for a remainder to go in.
  Block* take_free(Pool& pool, size_t size, c10::StreamId stream, Pool::Free::node_type& place) {
    if (C10_UNLIKELY(collects())) pool.searches++;
    const BlockKey key{nullptr, size, 0, stream};
    auto it = pool.free.lower_bound(&key);
    if (it == pool.free.end() || (*it)->stream != stream) return nullptr;
    if (C10_UNLIKELY(!is_plain_)) {
      it = chosen(pool, it, size);
      if (it == pool.free.end()) return nullptr;
    }
    Block* b = *it;
    place = pool.free.extract(it);
    return b;
  }
  // Which of the free blocks from here on; the end if none will do.
  Pool::Free::iterator chosen(Pool& pool, Pool::Free::iterator it, size_t size) const;
  // One from somewhere else: new memory, another pool's, what others leave. Throws if there is none.
  Block* take_anew(
      Pool& pool, size_t size, size_t bytes, c10::StreamId stream, Pool::Free::node_type& place, Lock& lock,
      const Context& context);
  // Another pool's free block, of those whose owners let others have them in need.
  Block* take_from_others(const Pool& pool, size_t size, c10::StreamId stream, Pool::Free::node_type& place);
  Block* new_segment(Pool& pool, size_t size, size_t wanted, c10::StreamId stream, bool retry, const Context& context);
  // Whether the device has so much left, for this process, and the machine has it, too.
  bool has_room(size_t size);
  bool is_rejected(size_t size) const;
  bool splits(const Block* b, size_t size) const {
    if (C10_UNLIKELY(b->pool->owner && b->pool->owner->no_split)) return false;
    const size_t left = b->size - size;
    if (b->pool->small || options_.expandable) return left >= kMinBlock;
    return size < options_.max_split && left > kSmallRequest;
  }
  // The part of a block beyond `size` as a block of its own, which is free.
  Block* split_block(Block* b, size_t size);
  // Expandable segments: addresses for so much; a block of so much; memory for the start of a block, for what is free
  // around it, too; memory of a free block's whole pages back.
  Block* expandable_room(Pool& pool, size_t size, c10::StreamId stream);
  Block* grow(Pool& pool, size_t size, c10::StreamId stream, const Context& context);
  Block* map_block(Block* b, size_t wanted, const Context& context);
  void unmap_block(Block* b, const Context& context);
  // A block that is in no free set, or a part of it, is the program's from now on; and is no more.
  void hand_out(Block* b, size_t size, size_t bytes, bool split, Pool::Free::node_type&& place, Context context);
  void take_back(Block* b, const Context& context);
  void give_back(Block* b, const Context& context, Lock& lock);  // which it unlocks
  // The blocks of a segment as they were; what is handed out of them is added.
  void restore_segment(const PoolCheckpoint::Segment& segment, const Context& context, Restored& done);
  const AddressTable::Segment* segment_at(const void* address) const;
  bool move_to_shared(AddressTable::Segment& segment);
  PrivatePool& retained(PoolId id);
  // b absorbs its right neighbour, which is not in any free set.
  void merge_next(Block* b);
  void return_to_pool(Block* b, const Context& context);
  // Is there work in front of it on a stream that uses it besides its own?
  bool is_busy(const Block* b) const;
  // The same of what comes next on a stream that is being captured: is it behind all that uses the block?
  bool is_behind(const Block* b, c10::StreamId stream) const;
  // `behind`: a stream that memory is wanted on, if that counts.
  void settle_pending(const Context& context, std::optional<c10::StreamId> behind = {});
  // Waits for the streams that use what was given back, of one pool or of all.
  void wait_for_pending(const Context& context, PoolId pool);
  // Whether segments that were not used for long go back early.
  bool collects() const {
    return options_.collect_above > 0 && limits_.is_reduced();
  }
  void collect(const Context& context);
  // Segments of uncut blocks back, as many as the request needs.
  bool release_oversize_blocks(Pool& pool, size_t size, c10::StreamId stream, const Context& context);
  void release_cached(PoolId pool, const Context& context);
  void release_segment(Pool& pool, Block* b, const Context& context);
  void release_uncached(Block* b);
  void drop_if_unused(PoolId id);
  size_t private_bytes() const;
  // Both give the lock back first.
  [[noreturn]] void out_of_memory(
      const Pool& pool, size_t size, size_t bytes, c10::StreamId stream, Lock& lock, const Context& context);
  [[noreturn]] void reject(size_t bytes, Lock& lock);

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
    note_of(action, address, size, stream, id_of(pool), std::move(context));
  }
  void note_of(Action action, uintptr_t address, size_t size, c10::StreamId stream, PoolId pool, Context context) {
    trace_.add({action, address, size, stream, 0, pool, std::move(context), {}, {}});
  }
  // Adds a block to what a snapshot shows; how much of it is in use.
  static size_t shown(const Block& b, SegmentInfo& in);
  static PoolId id_of(const Pool* pool) {
    return pool && pool->owner ? pool->owner->id : PoolId{0, 0};
  }

  const c10::DeviceIndex index_;
  std::mutex mutex_;
  Limits limits_;
  Options options_;
  bool configured_ = false;  // statistics show the first of them
  bool is_plain_ = true;     // options_.is_plain(), and no block is of an expandable segment
  size_t uncached_ = 0;      // bytes that are in no book
  int64_t rejections_ = 0;
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
