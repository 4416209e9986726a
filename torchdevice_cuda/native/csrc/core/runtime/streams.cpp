#include "runtime/streams.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "runtime/activities.h"
#include "runtime/captures.h"
#include "runtime/failure.h"
#include "runtime/gpu_trace.h"
#include "runtime/observer.h"

namespace hostdevice {
namespace {

// The simulated clock of sleep(): cycles per nanosecond, close to the 1.5 GHz of a data-center GPU.
constexpr double kCyclesPerNs = 1.5;
constexpr double kCenturyNs = 3.2e18;

// Encode the id of a pooled stream like CUDA: the lowest bit is 1, four bits hold the pool counted from 1, then the
// index in the pool.
c10::StreamId pooled_id(size_t pool, size_t index) {
  return static_cast<c10::StreamId>((index << 5) | ((pool + 1) << 1) | 1);
}
size_t pool_of(c10::StreamId id) {
  return static_cast<size_t>((id >> 1) & 0xf) - 1;
}
size_t index_of(c10::StreamId id) {
  return static_cast<size_t>(id >> 5);
}

struct DeviceStreams {
  StreamState default_stream;
  // index 0: normal priority, then -1 .. kHighestPriority
  std::array<std::array<StreamState, kStreamsPerPool>, 1 - kHighestPriority> pools;
  std::array<std::atomic<uint32_t>, 1 - kHighestPriority> next{};
  std::mutex mutex;
  std::unordered_map<c10::StreamId, std::unique_ptr<StreamState>> external;
  std::atomic<bool> are_pools_reported{false};  // its pools were reported to the GPU trace
  DeviceStreams() = default;
};

DeviceStreams& streams_of(c10::DeviceIndex index) {
  static std::array<std::atomic<DeviceStreams*>, kMaxDevices> all{};
  static std::mutex mutex;
  auto& slot = all.at(static_cast<size_t>(index));
  if (auto* found = slot.load(std::memory_order_acquire)) return *found;
  std::lock_guard<std::mutex> lock(mutex);
  if (auto* found = slot.load(std::memory_order_acquire)) return *found;
  auto* made = new DeviceStreams;  // leaked: streams outlive static destruction
  made->default_stream.device = index;
  for (size_t p = 0; p < made->pools.size(); p++) {
    for (size_t i = 0; i < kStreamsPerPool; i++) {
      auto& s = made->pools[p][i];
      s.device = index;
      s.priority = -static_cast<int>(p);
      s.id = pooled_id(p, i);
    }
  }
  slot.store(made, std::memory_order_release);
  return *made;
}

std::atomic<bool> g_ever_slept{false};
thread_local std::array<c10::StreamId, kMaxDevices> t_current_stream{};

// CUDA creates all streams of a device when the first one is requested.
void report_pool_creation(DeviceStreams& all) {
  if (all.are_pools_reported.exchange(true)) return;
  for (const auto& pool : all.pools)
    for (const auto& s : pool) report(&TraceVTable::trace_gpu_stream_creation, to_address(&s));
}
uintptr_t handle_of(const StreamState& stream) {
  return static_cast<uintptr_t>(stream_handle(stream.device, stream.id));
}

template <class State, class F>
bool query_observed(const State& state, F is_done) {
  observe([&](StreamObserver& o) { o.begin_query(state); });
  const bool done = is_done();
  observe([&](StreamObserver& o) { o.end_query(state, done); });
  return done;
}

}  // namespace

std::atomic<int64_t> g_clock_offset_ns{0};
namespace {
std::atomic<bool> g_is_time_simulated{false};
}  // namespace

void simulate_time(bool on) {
  g_ever_slept.store(true, std::memory_order_release);  // streams are busy from now on
  g_is_time_simulated.store(on);
}

std::atomic<int> g_sync_debug{static_cast<int>(SyncDebug::Off)};

int64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() +
      g_clock_offset_ns.load(std::memory_order_relaxed);
}

c10::StreamId new_stream(c10::DeviceIndex device, int priority) {
  check_fork();
  auto& all = streams_of(resolve(device));
  if (priority > 0) priority = 0;
  if (priority < kHighestPriority) priority = kHighestPriority;
  const auto p = static_cast<size_t>(-priority);
  const auto i = all.next[p].fetch_add(1) % kStreamsPerPool;
  if (!all.are_pools_reported.load()) check_before_launch(resolve(device));
  report_pool_creation(all);
  return all.pools[p][i].id;
}

c10::StreamId current_stream(c10::DeviceIndex device) {
  return t_current_stream[static_cast<size_t>(resolve(device))];
}

c10::StreamId exchange_stream(c10::DeviceIndex device, c10::StreamId id) {
  auto& slot = t_current_stream[static_cast<size_t>(resolve(device))];
  auto old = slot;
  slot = id;
  return old;
}

StreamState& stream_state(c10::DeviceIndex device, c10::StreamId id) {
  device = resolve(device);
  auto& all = streams_of(device);
  if (id == 0) return all.default_stream;
  if (id & 1) {
    const size_t p = pool_of(id), i = index_of(id);
    TORCH_CHECK(
        p < all.pools.size() && i < kStreamsPerPool, "unknown stream id ", id, " on ", c10::Device(kType, device));
    return all.pools[p][i];
  }
  // A handle from stream_handle() refers to the stream it came from.
  for (auto& pool : all.pools)
    for (auto& s : pool)
      if (reinterpret_cast<c10::StreamId>(&s) == id) return s;
  std::lock_guard<std::mutex> lock(all.mutex);
  auto& slot = all.external[id];
  if (!slot) {
    slot = std::make_unique<StreamState>();
    slot->id = id;
    slot->device = device;
  }
  return *slot;
}

int stream_priority(c10::DeviceIndex device, c10::StreamId id) {
  return stream_state(device, id).priority;
}

uint64_t stream_handle(c10::DeviceIndex device, c10::StreamId id) {
  if (id == 0 || !(id & 1)) return static_cast<uint64_t>(id);
  return reinterpret_cast<uint64_t>(&stream_state(device, id));
}

bool stream_idle(const StreamState& stream) {
  if (C10_UNLIKELY(stream.has_deferred_work.load(std::memory_order_acquire))) return false;
  const auto ready = stream.ready_ns.load(std::memory_order_acquire);
  return ready == 0 || ready <= now_ns();
}

bool query_stream(const StreamState& stream) {
  const RuntimeCall call("cudaStreamQuery", &stream);
  refuse_waiting_for(stream);
  check_before_wait(stream.device);
  return is_observed() ? query_observed(stream, [&] { return stream_idle(stream); }) : stream_idle(stream);
}

void synchronize_stream(const StreamState& stream) {
  // A copy that waits records this call itself.
  const RuntimeCall call(DeviceWork::is_in_progress() ? nullptr : "cudaStreamSynchronize", &stream);
  refuse_waiting_for(stream);
  check_before_wait(stream.device);
  report(&TraceVTable::trace_gpu_stream_synchronization, handle_of(stream));
  observe([&](StreamObserver& o) { o.synchronize(stream); });
  wait_until(stream.ready_ns.load());
}

void synchronize_event(const EventState& event) {
  RuntimeCall call("cudaEventSynchronize");
  call.waits_for(event);
  refuse_event_query(event);
  check_before_wait(event.device.load());
  report(&TraceVTable::trace_gpu_event_synchronization, to_address(&event));
  observe([&](StreamObserver& o) { o.synchronize(event); });
  wait_until(event.time_ns.load());
}

void wait_until(int64_t ns) {
  const auto left = ns - now_ns();
  if (left > 0 && g_is_time_simulated.load(std::memory_order_relaxed))
    g_clock_offset_ns.fetch_add(left, std::memory_order_acq_rel);
  else if (left > 0)
    std::this_thread::sleep_for(std::chrono::nanoseconds(left));
}

void (*g_before_synchronizing)() = nullptr;

void synchronize_device(c10::DeviceIndex device) {
  mark_used();
  const RuntimeCall call("cudaDeviceSynchronize");
  device = resolve(device);
  mark_context(device);
  refuse_waiting_for_device(device);
  check_before_wait(device);
  report(&TraceVTable::trace_gpu_device_synchronization);
  observe([&](StreamObserver& o) { o.synchronize(device); });
  if (g_before_synchronizing) g_before_synchronizing();
  if (!g_ever_slept.load(std::memory_order_acquire)) return;
  auto& all = streams_of(device);
  int64_t last = all.default_stream.ready_ns.load();
  for (auto& pool : all.pools)
    for (auto& s : pool) last = std::max<int64_t>(last, s.ready_ns.load());
  {
    std::lock_guard<std::mutex> lock(all.mutex);
    for (auto& e : all.external) last = std::max<int64_t>(last, e.second->ready_ns.load());
  }
  wait_until(last);
}

void sleep_current_stream(c10::DeviceIndex device, int64_t cycles) {
  mark_used();
  device = resolve(device);
  mark_context(device);
  check_before_launch(device);
  g_ever_slept.store(true, std::memory_order_release);
  auto& s = stream_state(device, current_stream(device));
  const auto start = std::max<int64_t>(now_ns(), s.ready_ns.load());
  // At most a century from now: sleeps add up, and the sum must not overflow.
  const auto ns = std::clamp(static_cast<double>(cycles) / kCyclesPerNs, 0.0, kCenturyNs);
  const auto end = std::min(start + static_cast<int64_t>(ns), now_ns() + static_cast<int64_t>(kCenturyNs));
  s.ready_ns.store(end, std::memory_order_release);
  if (is_recording()) add_sleep(device, start - now_ns(), end - start);
}

int64_t keep_busy(StreamState& stream, int64_t ns) {
  g_ever_slept.store(true, std::memory_order_release);
  const auto until = now_ns() + ns;
  auto ready = stream.ready_ns.load();
  while (until > ready && !stream.ready_ns.compare_exchange_weak(ready, until)) {
  }
  return std::max(until, ready);
}

void synchronize_current_stream(c10::DeviceIndex device) {
  if (has_captures()) refuse_waiting_for(stream_state(device, current_stream(device)));
  check_before_wait(device);
  if (C10_LIKELY(!g_ever_slept.load(std::memory_order_relaxed) && !get_gpu_trace() && !is_observed())) return;
  synchronize_stream(stream_state(device, current_stream(device)));
}

bool was_ever_busy() {
  return g_ever_slept.load(std::memory_order_relaxed);
}

int64_t current_stream_ready_ns(c10::DeviceIndex device) {
  if (C10_LIKELY(!was_ever_busy())) return 0;
  return stream_state(device, current_stream(device)).ready_ns.load();
}

void warn_synchronization() {
  constexpr auto* kMessage = "called a synchronizing CUDA operation";
  TORCH_CHECK(g_sync_debug.load() != static_cast<int>(SyncDebug::Error), kMessage);
  TORCH_WARN(kMessage);
}

void lock_streams_for_fork() {
  for (int i = 0; i < device_count(); i++) streams_of(static_cast<c10::DeviceIndex>(i)).mutex.lock();
}
void unlock_streams_after_fork() {
  for (int i = device_count() - 1; i >= 0; i--) streams_of(static_cast<c10::DeviceIndex>(i)).mutex.unlock();
}

void event_record(EventState& event, StreamState& stream) {
  mark_used();
  RuntimeCall call("cudaEventRecord", &stream);
  call.records(event);
  mark_context(stream.device);
  check_before_launch(stream.device);
  observe([&](StreamObserver& o) { o.record_event(event, stream); });
  event.device.store(stream.device, std::memory_order_relaxed);
  if (has_captures() || event.capture.load(std::memory_order_relaxed)) record_captured(event, stream);
  if (event.time_ns.load(std::memory_order_relaxed) < 0)
    report(&TraceVTable::trace_gpu_event_creation, to_address(&event));
  report(&TraceVTable::trace_gpu_event_record, to_address(&event), handle_of(stream));
  event.time_ns.store(std::max<int64_t>(now_ns(), stream.ready_ns.load()), std::memory_order_release);
}

void event_block(const EventState& event, StreamState& stream) {
  check_fork();
  check_before_launch(stream.device);
  RuntimeCall call("cudaStreamWaitEvent", &stream);
  call.waits_for(event);
  observe([&](StreamObserver& o) { o.wait_for_event(stream, event); });
  if (has_captures() || event.capture.load(std::memory_order_relaxed)) wait_captured(event, stream);
  report(&TraceVTable::trace_gpu_event_wait, to_address(&event), handle_of(stream));
  const auto t = event.time_ns.load(std::memory_order_acquire);
  auto ready = stream.ready_ns.load();
  while (t > ready && !stream.ready_ns.compare_exchange_weak(ready, t)) {
  }
}

void report_event_deletion(const EventState& event) {
  observe([&](StreamObserver& o) { o.destroy_event(event); });
  if (event.time_ns.load() >= 0) report(&TraceVTable::trace_gpu_event_deletion, to_address(&event));
}

bool query_event(const EventState& event) {
  const RuntimeCall call("cudaEventQuery");
  refuse_event_query(event);
  check_before_wait(event.device.load());
  const auto is_done = [&] { return event.time_ns.load(std::memory_order_acquire) <= now_ns(); };
  return is_observed() ? query_observed(event, is_done) : is_done();
}

double event_elapsed_ms(const EventState& start, const EventState& end) {
  refuse_event_query(start);
  refuse_event_query(end);
  check_before_wait(end.device.load());
  return static_cast<double>(end.time_ns.load() - start.time_ns.load()) * 1e-6;
}

}  // namespace hostdevice
