// Device memory as the rest of the program sees it: PyTorch's allocators, and the functions that drivers call.
//
// They use device_memory.h (one device's pools and statistics), segments.h and blocks.h (their data structures),
// history.h, limits.h and pinned.h. Segments are anonymous mappings: memory that is reserved but never touched costs
// the machine nothing.
//
// Locks: one per device, which protects all of that device's state; one for pinned memory. Only lock_all_for_fork()
// holds two of them: it takes the devices' locks in order, then the streams', the pinned memory's and the annotations',
// then those of activities and of the ledger. Code that holds a device's lock may take the streams' lock to look up a
// stream's state (streams.cpp), never the reverse. Other shared state is atomic (the history's switches, the address
// table) or thread-local (the device that CPU allocations come from).
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

// ---- memory of a device -------------------------------------------------------------------------------------------
void set_memory_limit(c10::DeviceIndex device, size_t bytes);
void set_memory_fraction(c10::DeviceIndex device, double fraction);
double memory_fraction(c10::DeviceIndex device);
Stats memory_stats(c10::DeviceIndex device);
std::pair<size_t, size_t> memory_in_use(c10::DeviceIndex device);  // allocated, reserved; does not copy the Stats
void reset_peak_stats(c10::DeviceIndex device);
void reset_accumulated_stats(c10::DeviceIndex device);
std::pair<size_t, size_t> memory_info(c10::DeviceIndex device);  // free, total
void empty_cache(PoolId pool = {0, 0});
std::vector<SegmentInfo> segments(c10::DeviceIndex device, PoolId pool);
int64_t memory_rejections(c10::DeviceIndex device);
void set_memory_options(const Options& options);  // applies to every device
// Set whether freed memory is cached. Uncached allocations appear in no statistics.
void set_caching(bool on);
Context context_of_address(const void* pointer);
std::vector<TraceEntry> trace(c10::DeviceIndex device);
// `source` provides the context to attach to what is recorded (may be null). `skipped` has a bit for each action that
// is not recorded.
void record_history(
    bool enabled, size_t max_entries, ContextSource source, StackRecording stacks, bool clear, uint32_t skipped);

void* raw_allocate(c10::DeviceIndex device, size_t bytes, c10::StreamId stream);
void raw_delete(void* pointer);
// Resize like torch.UntypedStorage.resize_ on CUDA: keep the bytes that fit; a size of 0 frees the memory.
void resize_storage(c10::StorageImpl* storage, int64_t bytes);
void record_stream(const c10::DataPtr& pointer, c10::DeviceIndex device, c10::StreamId stream);
// Return the device whose memory holds this address, or -1.
c10::DeviceIndex device_of_address(const void* pointer);
// Return [base, size] of the segment that holds this address, or {nullptr, 0}.
std::pair<void*, size_t> segment_of_address(const void* pointer);
// Return [begin, requested bytes] of the allocation that holds this address, or else of the nearest one in its segment;
// nullopt if no segment of this process holds the address.
std::optional<std::pair<void*, size_t>> block_of_address(const void* pointer);

// ---- private pools (MemPool, graphs) ------------------------------------------------------------------------------
void pool_retain(c10::DeviceIndex device, PoolId pool);
// With `capture`, the pool serves only the streams that take part in that capture, on any thread.
void pool_begin(c10::DeviceIndex device, PoolId pool, bool this_thread_only, uint64_t capture = 0);
void pool_end(c10::DeviceIndex device, PoolId pool);
void pool_release(c10::DeviceIndex device, PoolId pool);
int pool_use_count(c10::DeviceIndex device, PoolId pool);
void pool_no_split(c10::DeviceIndex device, PoolId pool);
void pool_use_on_oom(c10::DeviceIndex device, PoolId pool, bool use);

// ---- allocators ---------------------------------------------------------------------------------------------------
c10::Allocator* device_allocator();
// The allocator of CPU storages that alias device memory; CPU kernels resize them with it.
c10::Allocator* cpu_allocator();
c10::DataPtr allocate(size_t bytes, c10::DeviceIndex device);
// Return whether this memory came from the device's allocator.
bool is_device_memory(const c10::DataPtr& pointer);

// While an object of this class lives, the calling thread's CPU allocations come out of the device's memory. So the
// results and temporaries of a CPU kernel that implements a device kernel are counted, and its results need no copy.
//
// `has_cpu_scalars`: CPU scalars are among the arguments. A CPU kernel converts such a scalar into a one-element
// temporary, where a GPU passes it by value. Single elements are then allocated on the host, and a result of one
// element is moved to the device when it is adopted.
class AllocateOnDevice {
 public:
  explicit AllocateOnDevice(c10::DeviceIndex device, bool has_cpu_scalars = false);
  ~AllocateOnDevice();
  AllocateOnDevice(const AllocateOnDevice&) = delete;
  AllocateOnDevice& operator=(const AllocateOnDevice&) = delete;

 private:
  c10::DeviceIndex saved_;
  bool saved_has_cpu_scalars_;
};

// Do the same without a scope; -1 selects the host. Return the previous device.
c10::DeviceIndex exchange_allocate_on(c10::DeviceIndex device);

// Install the device's allocator, and the CPU allocator that AllocateOnDevice redirects.
void install_allocators();

// Hold every lock across fork(), so that the child inherits consistent state.
void lock_all_for_fork();
void unlock_all_after_fork();

}  // namespace hostdevice
