#include "runtime/allocator.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "runtime/activities.h"
#include "runtime/captured_allocations.h"
#include "runtime/captures.h"
#include "runtime/device_memory.h"
#include "runtime/failure.h"
#include "runtime/gpu_trace.h"
#include "runtime/ipc.h"
#include "runtime/observer.h"
#include "runtime/pinned.h"
#include "runtime/segments.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

constexpr size_t kOneExabyte = size_t{1} << 60;

// Statistics of an invalid index raise this CUDA message, not "invalid device ordinal".
DeviceMemory& get_checked_memory(c10::DeviceIndex index) {
  if (index < 0) index = t_current_device;
  TORCH_CHECK(index < device_count(), "Invalid device argument ", static_cast<int>(index), ": did you call init?");
  return memory_of(index);
}

// The deleter's context is the data pointer itself, which c10's raw_allocate() requires.
void delete_memory(void* pointer) {
  Block* b = addresses().block(pointer);
  report(&TraceVTable::trace_gpu_memory_deallocation, to_address(pointer));
  memory_of(b->device).release(b);
}

std::atomic<bool> g_caching{true};

Block* allocate_block(c10::DeviceIndex index, size_t bytes, c10::StreamId stream) {
  auto& memory = memory_of(index);
  return C10_LIKELY(g_caching.load(std::memory_order_relaxed)) ? memory.allocate(bytes, stream)
                                                               : memory.allocate_uncached(bytes, stream);
}

thread_local c10::DeviceIndex t_allocate_on = -1;
thread_local bool t_has_cpu_scalars = false;

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
  bool initialized() override {
    return device_count() > 0;
  }
  void emptyCache(PoolId pool = {0, 0}) override {
    hostdevice::empty_cache(pool);
  }
  void recordStream(const c10::DataPtr& ptr, c10::Stream stream) override {
    hostdevice::record_stream(ptr, stream.device_index(), stream.id());
  }
  Stats getDeviceStats(c10::DeviceIndex index) override {
    return hostdevice::memory_stats(index);
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override {
    hostdevice::reset_accumulated_stats(index);
  }
  void resetPeakStats(c10::DeviceIndex index) override {
    hostdevice::reset_peak_stats(index);
  }
  // PyTorch declares this method since 2.10, so it cannot be marked override.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) {
    return hostdevice::memory_info(index);
  }
};

// The process's CPU allocator: stock torch's allocator, except inside AllocateOnDevice.
c10::Allocator* g_stock_cpu = nullptr;

// The size of the largest element type, complex128.
constexpr size_t kOneElement = 16;

// A program may free raw memory long after the call that allocated it, so the address decides which allocator owns it.
void delete_raw_cpu(void* pointer) {
  if (is_captured_address(pointer)) return;
  if (addresses().find(pointer))
    delete_memory(pointer);
  else
    g_stock_cpu->raw_deleter()(pointer);
}

struct CpuAllocatorImpl final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    const auto index = t_allocate_on;
    if (C10_LIKELY(index < 0) || (t_has_cpu_scalars && bytes <= kOneElement)) return g_stock_cpu->allocate(bytes);
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

namespace {

// Record an allocation in the capture and in the call that is being recorded, if any.
void note_allocation(c10::DeviceIndex index, const Block* b) {
  if (t_captured.recording) t_captured.recording->entries.push_back({b->requested, b->ptr});
  if (const auto capture = capture_of(stream_state(index, current_stream(index)))) capture->allocated(b->ptr, b->size);
}

}  // namespace

c10::DataPtr allocate(size_t bytes, c10::DeviceIndex index) {
  mark_used();
  check_index(index);
  mark_context(index);
  if (bytes == 0) return {nullptr, device(index)};
  if constexpr (kIsCuda) {
    if (C10_UNLIKELY(bytes >= kOneExabyte))
      TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate more than 1EB memory.");
  } else {
    // A buffer of an Apple GPU is smaller than its memory, and a larger request raises a RuntimeError.
    TORCH_CHECK(bytes < memory_info(index).second, "Invalid buffer size: ", format_size(bytes));
  }
  if (C10_UNLIKELY(t_captured.replaying != nullptr)) return replay_allocation(bytes, index);
  Block* b = allocate_block(index, bytes, current_stream(index));
  report(&TraceVTable::trace_gpu_memory_allocation, to_address(b->ptr));
  if (has_captures()) note_allocation(index, b);
  return {b->ptr, b->ptr, &delete_memory, device(index)};
}

bool is_device_memory(const c10::DataPtr& p) {
  return p.get_deleter() == &delete_memory || is_replayed(p);
}

c10::Allocator* device_allocator() {
  return &device_impl();
}
c10::Allocator* cpu_allocator() {
  return &cpu_impl();
}

void install_allocators() {
  // Use a priority above the stock registrations' (0) so that a CUDA build's own allocator is replaced, too.
  c10::SetAllocator(kType, device_allocator(), 10);
  g_stock_cpu = c10::GetCPUAllocator();
  c10::SetCPUAllocator(cpu_allocator(), 10);
}

AllocateOnDevice::AllocateOnDevice(c10::DeviceIndex index, bool has_cpu_scalars)
    : saved_(t_allocate_on), saved_has_cpu_scalars_(t_has_cpu_scalars) {
  t_allocate_on = index;
  t_has_cpu_scalars = has_cpu_scalars;
}
AllocateOnDevice::~AllocateOnDevice() {
  t_allocate_on = saved_;
  t_has_cpu_scalars = saved_has_cpu_scalars_;
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
  get_checked_memory(index).set_fraction(fraction);
}
double memory_fraction(c10::DeviceIndex index) {
  return get_checked_memory(index).fraction();
}
Stats memory_stats(c10::DeviceIndex index) {
  return get_checked_memory(index).stats();
}
std::pair<size_t, size_t> memory_in_use(c10::DeviceIndex index) {
  return get_checked_memory(index).in_use();
}
void reset_peak_stats(c10::DeviceIndex index) {
  get_checked_memory(index).reset_peak_stats();
}
void reset_accumulated_stats(c10::DeviceIndex index) {
  get_checked_memory(index).reset_accumulated_stats();
}
std::pair<size_t, size_t> memory_info(c10::DeviceIndex index) {
  index = resolve(index);
  check_before_wait(index);
  return memory_of(index).info();
}
void empty_cache(PoolId pool) {
  for (int i = 0; i < device_count(); i++) {
    const auto index = static_cast<c10::DeviceIndex>(i);
    observe([&](StreamObserver& o) { o.begin_release(index); });
    memory_of(index).empty_cache(pool);
  }
}
std::vector<SegmentInfo> segments(c10::DeviceIndex index, PoolId pool) {
  return get_checked_memory(index).snapshot(pool);
}
int64_t memory_rejections(c10::DeviceIndex index) {
  return get_checked_memory(index).rejections();
}
void set_memory_options(const Options& options) {
  for (int i = 0; i < device_count(); i++) memory_of(static_cast<c10::DeviceIndex>(i)).set_options(options);
}
void set_caching(bool on) {
  g_caching = on;
}
Context context_of_address(const void* pointer) {
  const auto index = device_of_address(pointer);
  return index < 0 ? nullptr : memory_of(index).context_at(pointer);
}
std::vector<TraceEntry> trace(c10::DeviceIndex index) {
  return get_checked_memory(index).trace();
}
void record_history(
    bool enabled, size_t max_entries, ContextSource source, StackRecording stacks, bool clear, uint32_t skipped) {
  g_history.source = source;
  g_history.stacks = stacks;
  g_history.skipped = skipped;
  g_history.max_entries = std::max<size_t>(1, max_entries);
  g_history.on = enabled;
  if (enabled && !clear) return;
  clear_annotations();
  for (int i = 0; i < device_count(); i++) memory_of(static_cast<c10::DeviceIndex>(i)).clear_trace();
}

void* raw_allocate(c10::DeviceIndex index, size_t bytes, c10::StreamId stream) {
  mark_used();
  index = resolve(index);
  mark_context(index);
  if (bytes == 0) return nullptr;
  // Rounding a larger request up to whole segments would overflow.
  TORCH_CHECK_WITH(
      OutOfMemoryError, bytes <= Options::kNever - kRoundLarge,
      "CUDA out of memory. Tried to allocate more than 1EB memory.");
  stream_state(index, stream);  // throws if there is no such stream
  void* const made = allocate_block(index, bytes, stream)->ptr;
  report(&TraceVTable::trace_gpu_memory_allocation, to_address(made));
  return made;
}

void raw_delete(void* pointer) {
  if (!pointer) return;
  // The address may be arbitrary, and another thread may be freeing it: look it up under the device's lock.
  const auto index = device_of_address(pointer);
  if (index >= 0) report(&TraceVTable::trace_gpu_memory_deallocation, to_address(pointer));
  TORCH_CHECK(
      index >= 0 && memory_of(index).release_at(static_cast<char*>(pointer)), "invalid device pointer: ", pointer);
}

void resize_storage(c10::StorageImpl* storage, int64_t bytes) {
  TORCH_CHECK(
      storage->data() != nullptr || storage->nbytes() == 0,
      "Attempted to call resize_() on an invalid python storage.");
  TORCH_CHECK(bytes >= 0, "Requested storage size (", bytes, ") cannot be represented as a size_t");
  TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
  TORCH_CHECK(storage->allocator() != nullptr, "Trying to resize storage without an allocator");
  const auto index = storage->device().index();
  const auto size = static_cast<size_t>(bytes);
  c10::DataPtr data = allocate(size, index);
  const size_t kept = std::min(storage->nbytes(), size);
  if (kept != 0 && storage->data() != nullptr) std::memcpy(data.get(), storage->data(), kept);
  storage->set_data_ptr_noswap(std::move(data));
  storage->set_nbytes(size);
}

void record_stream(const c10::DataPtr& pointer, c10::DeviceIndex index, c10::StreamId stream) {
  if (pointer.get_deleter() != &delete_memory) return;
  Block* b = addresses().block(pointer.get());
  if (b->device == index) memory_of(index).record_stream(b, stream);
}

c10::DeviceIndex device_of_address(const void* pointer) {
  for (int i = 0; i < device_count(); i++) {
    const auto index = static_cast<c10::DeviceIndex>(i);
    if (memory_of(index).segment_of(pointer).first != nullptr) return index;
  }
  return device_of_received(pointer);
}
std::pair<void*, size_t> segment_of_address(const void* pointer) {
  const auto index = device_of_address(pointer);
  return index < 0 ? std::pair<void*, size_t>{nullptr, 0} : memory_of(index).segment_of(pointer);
}

std::optional<std::pair<void*, size_t>> block_of_address(const void* pointer) {
  for (int i = 0; i < device_count(); i++)
    if (const auto found = memory_of(static_cast<c10::DeviceIndex>(i)).block_near(pointer)) return found;
  return std::nullopt;
}

void pool_retain(c10::DeviceIndex index, PoolId pool) {
  memory_of(resolve(index)).pool_retain(pool);
}
void pool_begin(c10::DeviceIndex index, PoolId pool, bool this_thread_only, uint64_t capture) {
  memory_of(resolve(index)).pool_begin(pool, this_thread_only, capture);
}
void pool_end(c10::DeviceIndex index, PoolId pool) {
  memory_of(resolve(index)).pool_end(pool);
}
void pool_release(c10::DeviceIndex index, PoolId pool) {
  memory_of(resolve(index)).pool_release(pool);
}
void pool_no_split(c10::DeviceIndex index, PoolId pool) {
  memory_of(resolve(index)).pool_no_split(pool);
}
void pool_use_on_oom(c10::DeviceIndex index, PoolId pool, bool use) {
  memory_of(resolve(index)).pool_use_on_oom(pool, use);
}
int pool_use_count(c10::DeviceIndex index, PoolId pool) {
  return memory_of(resolve(index)).pool_uses(pool);
}

void lock_all_for_fork() {
  for (int i = 0; i < device_count(); i++) memory_of(static_cast<c10::DeviceIndex>(i)).lock_for_fork();
  lock_streams_for_fork();
  lock_pinned_for_fork();
  lock_annotations_for_fork();
  lock_activities_for_fork();
  lock_ledger_for_fork();
}
void unlock_all_after_fork() {
  unlock_ledger_after_fork();
  unlock_activities_after_fork();
  unlock_annotations_after_fork();
  unlock_pinned_after_fork();
  unlock_streams_after_fork();
  for (int i = device_count() - 1; i >= 0; i--) memory_of(static_cast<c10::DeviceIndex>(i)).unlock_after_fork();
}

}  // namespace hostdevice
