// Device memory as the rest of the program sees it: PyTorch's allocators, and what drivers ask of a device's memory.
//
// Behind it are device_memory.h (one device's pools and books), segments.h and blocks.h (what they are made of),
// history.h, limits.h and pinned.h. Segments are anonymous mappings: reserved but untouched memory costs the machine
// nothing.
//
// Locks: one a device, which protects everything of that device; one for pinned memory. No code holds two of them but
// lock_all_for_fork(), which takes the devices' in order, then the streams', then the pinned one and that of
// annotations. Under a device's lock the state of its streams is looked up, which may take the streams' lock
// (streams.cpp), never the other way round. What threads share besides is atomic (the history's switches, the address
// table) or the thread's own (where its CPU allocations go).
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/Stream.h>

#include <optional>
#include <utility>
#include <vector>

#include "compat.h"
#include "runtime/device.h"
#include "runtime/history.h"
#include "runtime/options.h"
#include "runtime/snapshot.h"
#include "runtime/statistics.h"

namespace hostdevice {

// ---- what drivers ask for, per device -----------------------------------------------------------------------------
void set_memory_limit(c10::DeviceIndex device, size_t bytes);
void set_memory_fraction(c10::DeviceIndex device, double fraction);
double memory_fraction(c10::DeviceIndex device);
Stats memory_stats(c10::DeviceIndex device);
std::pair<size_t, size_t> memory_in_use(c10::DeviceIndex device);  // allocated, reserved; without copying the books
void reset_peak_stats(c10::DeviceIndex device);
void reset_accumulated_stats(c10::DeviceIndex device);
std::pair<size_t, size_t> memory_info(c10::DeviceIndex device);  // free, total
void empty_cache(PoolId pool = {0, 0});
std::vector<SegmentInfo> segments(c10::DeviceIndex device, PoolId pool);
int64_t memory_rejections(c10::DeviceIndex device);
void set_memory_options(const Options& options);  // of every device
// Whether freed memory is kept; where it is not, nothing is in the books.
void set_caching(bool on);
Context context_of_address(const void* pointer);
std::vector<TraceEntry> trace(c10::DeviceIndex device);
// source: what to attach to what is kept (may be null). `skipped` has a bit for each action that is not recorded.
void record_history(
    bool enabled, size_t max_entries, ContextSource source, Keeping keeping, bool clear, uint32_t skipped);

void* raw_allocate(c10::DeviceIndex device, size_t bytes, c10::StreamId stream);
void raw_delete(void* pointer);
// As torch.UntypedStorage.resize_ does on CUDA: the bytes that fit stay; of a size of 0 no memory is left.
void resize_storage(c10::StorageImpl* storage, int64_t bytes);
void record_stream(const c10::DataPtr& pointer, c10::DeviceIndex device, c10::StreamId stream);
// The device whose memory holds this address, or -1.
c10::DeviceIndex device_of_address(const void* pointer);
// [base, size] of the segment holding this address; {nullptr, 0} if none does.
std::pair<void*, size_t> segment_of_address(const void* pointer);
// [begin, requested bytes] of the allocation holding this address, or of the nearest to it in its segment; nothing
// where no segment of this process holds it.
std::optional<std::pair<void*, size_t>> block_of_address(const void* pointer);

// ---- private pools (MemPool, graphs) ------------------------------------------------------------------------------
void pool_retain(c10::DeviceIndex device, PoolId pool);
// capture: only of streams that take part in it, whichever thread.
void pool_begin(c10::DeviceIndex device, PoolId pool, bool this_thread_only, uint64_t capture = 0);
void pool_end(c10::DeviceIndex device, PoolId pool);
void pool_release(c10::DeviceIndex device, PoolId pool);
int pool_use_count(c10::DeviceIndex device, PoolId pool);
void pool_no_split(c10::DeviceIndex device, PoolId pool);
void pool_use_on_oom(c10::DeviceIndex device, PoolId pool, bool use);

// ---- allocators ---------------------------------------------------------------------------------------------------
c10::Allocator* device_allocator();
// What CPU storages standing for device memory use when a CPU kernel resizes them.
c10::Allocator* cpu_allocator();
c10::DataPtr allocate(size_t bytes, c10::DeviceIndex device);
// Did this memory come from the device's allocator?
bool is_ours(const c10::DataPtr& pointer);

// While one of these lives, the calling thread's CPU allocations come out of the device's memory: that is how the
// results and the temporaries of a CPU kernel standing in for a device kernel are counted, and results kept without
// a copy.
//
// `numbers`: CPU numbers are among the arguments. A CPU kernel converts such a number into a one-element temporary
// where a GPU passes it by value, so single elements are then the host's memory, and a result of one element is moved
// to the device when it is adopted.
class AllocateOnDevice {
 public:
  explicit AllocateOnDevice(c10::DeviceIndex device, bool numbers = false);
  ~AllocateOnDevice();
  AllocateOnDevice(const AllocateOnDevice&) = delete;
  AllocateOnDevice& operator=(const AllocateOnDevice&) = delete;

 private:
  c10::DeviceIndex saved_;
  bool saved_numbers_;
};

// The same by hand, for callers without scopes; -1 for the host. Gives what it was.
c10::DeviceIndex exchange_allocate_on(c10::DeviceIndex device);

// Installs the device's allocator and the CPU allocator that AllocateOnDevice steers.
void install_allocators();

// Every lock of device and pinned memory, across fork(): the child inherits books that are in order.
void lock_all_for_fork();
void unlock_all_after_fork();

}  // namespace hostdevice
