// The memory of one device: it allocates, splits, merges and caches blocks like CUDA's caching allocator.
//
// Sizes, pools and statistics follow what a program can observe of CUDA's allocator, so that memory_stats(), snapshots
// and out-of-memory errors mean the same. One lock per device protects every member, and every public function takes
// it. Functions that may run foreign code (the profiler, the history's context source) run it without the lock.
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
  SharedRange segment;
  size_t offset;
};

class DeviceMemory {
 public:
  explicit DeviceMemory(c10::DeviceIndex index) : index_(index) {
    small_.small = true;
    stats_.max_split_size = -1;
  }

  // Return a block of at least this many bytes; throw if memory is short.
  Block* allocate(size_t bytes, c10::StreamId stream);
  // Allocate without caching or statistics:
  // torch.cuda.caching_allocator_enable(False)
  Block* allocate_uncached(size_t bytes, c10::StreamId stream);
  void release(Block* block);
  // Release by address; return false if no block of this device is allocated at that address.
  bool release_at(char* address);
  // Record that another stream uses the block: freeing it waits for that stream, too.
  void record_stream(Block* block, c10::StreamId stream);
  // Return where other processes find the block that begins at this address; nullopt if there is no such block.
  std::optional<SharedBlock> share(char* address);

  Stats stats();
  int64_t rejections();                // a separate count, because Stats has no field for it before torch 2.13
  std::pair<size_t, size_t> in_use();  // allocated, reserved
  void reset_peak_stats();
  void reset_accumulated_stats();
  void set_limit(size_t bytes);
  void set_fraction(double fraction);
  void set_options(const Options& options);
  double fraction();
  std::pair<size_t, size_t> info();  // free, total

  // {0, 0}: empty the default pools and the private pools without holders; else that pool, if it has no holder.
  void empty_cache(PoolId pool);
  // {0, 0}: all pools.
  std::vector<SegmentInfo> snapshot(PoolId pool);
  // Return the context of the block that is allocated at this address, or null.
  Context context_at(const void* address);
  std::vector<TraceEntry> trace();
  void clear_trace();

  // Return {base, size} of the segment that holds this address; {nullptr, 0} if no segment of this device does.
  std::pair<void*, size_t> segment_of(const void* address);
  // Return {begin, requested bytes} of the allocation at this address, or else of the nearest one in its segment;
  // nullopt if no segment of this device holds the address.
  std::optional<std::pair<void*, size_t>> block_near(const void* address);

  // The first holder creates the pool. After the last one is gone, the next empty_cache() or the next shortage frees
  // the pool's memory.
  void pool_retain(PoolId id);
  // Add a holder and route allocations to the pool from now on.
  void pool_begin(PoolId id, bool this_thread_only, uint64_t capture = 0);
  void pool_end(PoolId id);
  void pool_release(PoolId id);
  int pool_uses(PoolId id);
  void pool_no_split(PoolId id);
  void pool_use_on_oom(PoolId id, bool use);

  // Record the blocks of a pool. restore() frees what was allocated since, and restores those blocks.
  PoolCheckpoint checkpoint(PoolId id);
  // Throw, and free nothing, if more than `most` allocated blocks would lose their storage.
  Restored restore(const PoolCheckpoint& checkpoint, size_t most);

  // Hold the lock across fork(), so that the child inherits consistent state.
  void lock_for_fork() {
    mutex_.lock();
  }
  void unlock_after_fork() {
    mutex_.unlock();
  }

 private:
  // A rule that sends allocations to a private pool: those of one thread, or of all.
  struct Route {
    PoolId id;
    std::thread::id thread;
    bool any_thread;
    uint64_t capture;  // only for streams that take part in this capture; 0: any stream
  };
  using Lock = std::unique_lock<std::mutex>;

  // The lock must be held for all of these functions.
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
  // Take a free block; return null if there is none. `node` receives the block's set node, for a remainder to reuse.
  Block* take_free(Pool& pool, size_t size, c10::StreamId stream, Pool::Free::node_type& node) {
    if (C10_UNLIKELY(is_garbage_collecting())) pool.searches++;
    const BlockKey key{nullptr, size, 0, stream};
    auto it = pool.free.lower_bound(&key);
    if (it == pool.free.end() || (*it)->stream != stream) return nullptr;
    if (C10_UNLIKELY(!is_plain_)) {
      it = choose_free_block(pool, it, size);
      if (it == pool.free.end()) return nullptr;
    }
    Block* b = *it;
    node = pool.free.extract(it);
    return b;
  }
  // Choose among the free blocks from `it` on; return the end if none fits.
  Pool::Free::iterator choose_free_block(Pool& pool, Pool::Free::iterator it, size_t size) const;
  // Get a block from elsewhere: new memory, another pool, or memory freed for it. Throw if there is none.
  Block* allocate_new(
      Pool& pool, size_t size, size_t bytes, c10::StreamId stream, Pool::Free::node_type& node, Lock& lock,
      const Context& context);
  // Take a free block of another pool whose owner allows that (use_on_oom).
  Block* take_from_oom_pools(const Pool& pool, size_t size, c10::StreamId stream, Pool::Free::node_type& node);
  Block* new_segment(Pool& pool, size_t size, size_t wanted, c10::StreamId stream, bool retry, const Context& context);
  // Return whether this process may reserve so much more on the device, and the machine has it.
  bool has_room(size_t size);
  bool is_rejected(size_t size) const;
  bool should_split(const Block* b, size_t size) const {
    if (C10_UNLIKELY(b->pool->owner && b->pool->owner->no_split)) return false;
    const size_t left = b->size - size;
    if (b->pool->small || options_.expandable) return left >= kMinBlock;
    return size < options_.max_split && left > kSmallRequest;
  }
  // Split off the part beyond `size` and return it as a free block.
  Block* split_block(Block* b, size_t size);
  // Expandable segments. reserve_addresses() finds or reserves addresses. grow() returns a block of this size.
  // map_block() maps memory at the start of a block and merges it with free neighbors. unmap_block() unmaps the whole
  // pages of a free block.
  Block* reserve_addresses(Pool& pool, size_t size, c10::StreamId stream);
  Block* grow(Pool& pool, size_t size, c10::StreamId stream, const Context& context);
  Block* map_block(Block* b, size_t wanted, const Context& context);
  void unmap_block(Block* b, const Context& context);
  // Mark a block (or a part of it) that is in no free set as allocated; and free it again.
  void mark_allocated(Block* b, size_t size, size_t bytes, bool split, Pool::Free::node_type&& node, Context context);
  void mark_freed(Block* b, const Context& context);
  void free_block(Block* b, const Context& context, Lock& lock);  // unlocks `lock`
  // Restore the blocks of a segment, and add the allocated ones to `done`.
  void restore_segment(const PoolCheckpoint::Segment& segment, const Context& context, Restored& done);
  const AddressTable::Segment* segment_at(const void* address) const;
  bool move_to_shared(AddressTable::Segment& segment);
  PrivatePool& get_or_create_pool(PoolId id);
  // Merge the next block into `b`. That block is in no free set.
  void merge_next(Block* b);
  void return_to_pool(Block* b, const Context& context);
  // Return whether another stream than the block's own still has work that uses the block.
  bool is_busy(const Block* b) const;
  // Return whether the next work on a capturing stream comes after all work that uses the block.
  bool comes_after_uses(const Block* b, c10::StreamId stream) const;
  // Return pending blocks that no stream uses any more to their pools. `allocating`: the stream that allocates; blocks
  // that it may reuse within its capture are returned, too.
  void return_idle_blocks(const Context& context, std::optional<c10::StreamId> allocating = {});
  // Wait for the streams that use pending blocks, of one pool or of all.
  void wait_for_pending(const Context& context, PoolId pool);
  // Return whether garbage collection of unused segments is on.
  bool is_garbage_collecting() const {
    return options_.garbage_collection_threshold > 0 && limits_.is_reduced();
  }
  void garbage_collect(const Context& context);
  // Release segments of unsplit oversize blocks, as many as the request needs.
  bool release_oversize_blocks(Pool& pool, size_t size, c10::StreamId stream, const Context& context);
  void release_cached(PoolId pool, const Context& context);
  void release_segment(Pool& pool, Block* b, const Context& context);
  void release_uncached(Block* b);
  void drop_if_unused(PoolId id);
  size_t private_bytes() const;
  size_t largest_free_block() const;
  // Both release the lock before they throw.
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
  void trace_event(
      Action action, uintptr_t address, size_t size, c10::StreamId stream, const Pool* pool, Context context) {
    if (C10_LIKELY(!history_enabled())) return;
    add_trace_entry(action, address, size, stream, id_of(pool), std::move(context));
  }
  void add_trace_entry(
      Action action, uintptr_t address, size_t size, c10::StreamId stream, PoolId pool, Context context) {
    trace_.add({action, address, size, stream, 0, pool, std::move(context), {}, {}});
  }
  // Add a block to a segment's snapshot; return how many of its bytes are active.
  static size_t add_to_snapshot(const Block& b, SegmentInfo& in);
  static PoolId id_of(const Pool* pool) {
    return pool && pool->owner ? pool->owner->id : PoolId{0, 0};
  }

  const c10::DeviceIndex index_;
  std::mutex mutex_;
  Limits limits_;
  Options options_;
  bool configured_ = false;  // statistics report the first max_split_size that was set
  bool is_plain_ = true;     // options_.is_plain(), and no block belongs to an expandable segment
  size_t uncached_ = 0;      // bytes that appear in no statistics
  int64_t rejections_ = 0;
  Stats stats_;
  Pool small_, large_;
  std::map<PoolId, std::unique_ptr<PrivatePool>> private_;
  std::vector<Route> routes_;
  std::map<char*, Block*> segments_;
  std::vector<Block*> pending_;  // freed, but another stream still uses them
  std::vector<Block*> spare_;    // Block objects for reuse
  Trace trace_;
};

// Return the memory of a device; it is created on first use.
DeviceMemory& memory_of(c10::DeviceIndex index);

}  // namespace hostdevice
