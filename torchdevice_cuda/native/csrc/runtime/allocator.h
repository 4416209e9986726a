// Device memory: a caching allocator over host memory that keeps the books CUDA's keeps.
//
// Sizes, pools, splitting, merging and caching follow what a program can see of CUDA's allocator, so that
// memory_stats(), snapshots and out-of-memory errors mean the same. Segments are anonymous mappings: reserved but
// untouched memory costs the machine nothing.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device.h"

namespace hostdevice {

struct Stat {
  int64_t current = 0, peak = 0, allocated = 0, freed = 0;
  void increase(int64_t n) {
    current += n;
    if (current > peak) peak = current;
    allocated += n;
  }
  void decrease(int64_t n) {
    current -= n;
    freed += n;
  }
};
enum StatKind : size_t { kAll = 0, kSmallPool = 1, kLargePool = 2, kStatKinds = 3 };
using StatArray = std::array<Stat, kStatKinds>;

struct Stats {
  StatArray allocation, segment, active, inactive_split;
  StatArray allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes, requested_bytes;
  Stat oversize_allocations, oversize_segments;
  int64_t num_alloc_retries = 0, num_ooms = 0, num_sync_all_streams = 0;
  int64_t num_device_alloc = 0, num_device_free = 0;
};

// Whatever the caller of the history wants attached to an event (a Python stack); opaque here.
using Context = std::shared_ptr<void>;
using ContextSource = Context (*)();

struct BlockInfo {
  uintptr_t address = 0;
  size_t size = 0, requested = 0;
  const char* state = "inactive";
  Context context;
};
using PoolId = std::pair<uint64_t, uint64_t>;
struct SegmentInfo {
  c10::DeviceIndex device = 0;
  uintptr_t address = 0;
  size_t total = 0, allocated = 0, active = 0, requested = 0;
  c10::StreamId stream = 0;
  bool large = false;
  PoolId pool{0, 0};
  Context context;
  std::vector<BlockInfo> blocks;
};
enum class Action : uint8_t { Alloc, FreeRequested, FreeCompleted, SegmentAlloc, SegmentFree, Oom, Snapshot };
struct TraceEntry {
  Action action;
  uintptr_t address;  // of an Oom: the free bytes
  size_t size;
  c10::StreamId stream;
  int64_t time_us;
  PoolId pool;
  Context context;
};

// ---- what drivers ask for, per device -----------------------------------------------------------------------------
void set_memory_limit(c10::DeviceIndex device, size_t bytes);
void set_memory_fraction(c10::DeviceIndex device, double fraction);
double memory_fraction(c10::DeviceIndex device);
Stats memory_stats(c10::DeviceIndex device);
void reset_peak_stats(c10::DeviceIndex device);
void reset_accumulated_stats(c10::DeviceIndex device);
std::pair<size_t, size_t> memory_info(c10::DeviceIndex device);  // free, total
void empty_cache(PoolId pool = {0, 0});
std::vector<SegmentInfo> segments(c10::DeviceIndex device);
std::vector<TraceEntry> trace(c10::DeviceIndex device);
// context: attach source()'s value; all_contexts: to frees as well. max_entries 0 turns recording off.
void record_history(bool enabled, size_t max_entries, ContextSource source, bool contexts_on_free);
bool history_enabled();

void* raw_allocate(c10::DeviceIndex device, size_t bytes, c10::StreamId stream);
void raw_delete(void* pointer);
void record_stream(const c10::DataPtr& pointer, c10::DeviceIndex device, c10::StreamId stream);
// The device whose memory holds this address, or -1.
c10::DeviceIndex device_of_address(const void* pointer);
// [base, size] of the segment holding this address; {nullptr, 0} if none does.
std::pair<void*, size_t> segment_of_address(const void* pointer);

// ---- private pools (MemPool, graphs) ------------------------------------------------------------------------------
void pool_begin(c10::DeviceIndex device, PoolId pool, bool this_thread_only);
void pool_end(c10::DeviceIndex device, PoolId pool);
void pool_release(c10::DeviceIndex device, PoolId pool);
int pool_use_count(c10::DeviceIndex device, PoolId pool);

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

// ---- pinned host memory -------------------------------------------------------------------------------------------
struct HostStats {
  Stat allocation, allocated_bytes, segment, reserved_bytes;
  int64_t num_host_alloc = 0, num_host_free = 0;
};
c10::Allocator* pinned_allocator();
bool is_pinned(const void* pointer);
HostStats host_stats();
void host_empty_cache();
void host_reset_peak_stats();
void host_reset_accumulated_stats();

void lock_all_for_fork();
void unlock_all_after_fork();

std::string format_size(uint64_t bytes);

}  // namespace hostdevice
