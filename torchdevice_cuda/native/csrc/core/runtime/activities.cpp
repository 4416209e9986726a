#include "runtime/activities.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "runtime/captures.h"
#include "runtime/device.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

std::mutex g_mutex;
std::vector<Activity>& written() {
  static auto* all = new std::vector<Activity>;
  return *all;
}
// The correlation id of the last call that recorded each event, and the stream that it recorded on.
using Recordings = std::unordered_map<const EventState*, std::pair<uint32_t, c10::StreamId>>;
Recordings& recordings() {
  static auto* all = new Recordings;
  return *all;
}
std::atomic<bool> g_begun{false};
// Counts profiles. A thread discards the operator and range ids that an earlier profile left behind.
std::atomic<uint64_t> g_profile{0};
// Correlation ids start far above PyTorch's operator ids. PyTorch's profiler assigns kernels to the event that has
// their id, and took runtime calls for operators when the ranges overlapped.
std::atomic<uint32_t> g_correlation{1U << 30};

struct Around {
  uint64_t profile = 0;
  std::vector<uint64_t> ops, ranges;
};
thread_local Around t_around;
thread_local Underway* t_underway = nullptr;
thread_local uint32_t t_graph = 0;  // correlation id of the cudaGraphLaunch that this thread is in; 0: none

Around& around() {
  const auto profile = g_profile.load(std::memory_order_relaxed);
  if (t_around.profile != profile) t_around = {profile, {}, {}};
  return t_around;
}

void leave(std::vector<uint64_t>& ids) {
  if (!ids.empty()) ids.pop_back();
}

uint32_t next_correlation() {
  return g_correlation.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Start an activity now.
Activity begun(Doing doing, std::string name, c10::DeviceIndex device) {
  const auto& here = around();
  Activity a;
  a.doing = doing;
  a.name = std::move(name);
  a.op = here.ops.empty() ? 0 : here.ops.back();
  a.range = here.ranges.empty() ? 0 : here.ranges.back();
  a.thread = g_number_thread ? g_number_thread() : 0;
  a.device = device;
  if (doing != Doing::Runtime) {
    a.stream = current_stream(device);
    a.delay_ns = std::max<int64_t>(0, current_stream_ready_ns(device) - now_ns());
  }
  a.start = c10::getApproximateTime();
  return a;
}

// Return whether the host waits for the device in this runtime call.
bool waits(const char* call) {
  static constexpr std::string_view kEnd = "Synchronize";
  const std::string_view name = call;
  return name.size() > kEnd.size() && name.substr(name.size() - kEnd.size()) == kEnd;
}

void begin_counted(Underway& now, const std::string& op, Site site) {
  now.op = named(op);
  now.site = site;
  now.began_ns = now_ns();
}

void count_done(const Underway& now) {
  const int64_t ns = now_ns() - now.began_ns;
  const Activity& work = now.work;
  if (work.doing == Doing::Memcpy)
    count_work(Counted::Copy, named(work.name), now.site, ns, work.bytes);
  else
    count_work(Counted::Kernel, now.op, now.site, ns, 0);
  if (now.awaited) count_work(Counted::Wait, now.op, now.site, 0, 0);
}

void write(Activity a) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  if (is_written()) written().push_back(std::move(a));
}

// Return the runtime call that launched `work`. It ends when the work starts, although the calling thread does the
// computation: that time, and the memory allocated in it, belong to the operator.
Activity call_for(const Activity& work, c10::approx_time_t called, const char* name) {
  Activity call = work;
  call.doing = Doing::Runtime;
  call.name = name;
  call.end = std::exchange(call.start, called);
  call.delay_ns = call.longer_ns = 0;
  call.bytes = -1;
  call.launches = true;
  return call;
}

const char* launching(Doing doing) {
  return doing == Doing::Memcpy ? "cudaMemcpyAsync" : "cudaLaunchKernel";
}

// Name a kernel after its operator, because the virtual device runs none of CUDA's kernels. The prefix comes first
// because programs recognize operators by the beginning of a name.
std::string kernel_name(const std::string& op) {
  return "virtual " + op;
}

}  // namespace

std::atomic<uint8_t> g_listeners{0};
int32_t (*g_number_thread)() = nullptr;

void listen(uint8_t who, bool on) {
  if (on)
    g_listeners.fetch_or(who);
  else
    g_listeners.fetch_and(static_cast<uint8_t>(~who));
}

void begin_activities() {
  const std::lock_guard<std::mutex> lock(g_mutex);
  written().clear();
  recordings().clear();
  g_profile.fetch_add(1);
  g_begun.store(true);
  listen(kWriting, true);
}

std::vector<Activity> end_activities() {
  const std::lock_guard<std::mutex> lock(g_mutex);
  g_begun.store(false);
  listen(kWriting, false);
  return std::exchange(written(), {});
}

void pause_activities(bool paused) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  listen(kWriting, g_begun.load() && !paused);
}

void enter_op(uint64_t id) {
  around().ops.push_back(id);
}
void leave_op() {
  leave(around().ops);
}
void enter_range(uint64_t id) {
  around().ranges.push_back(id);
}
void leave_range() {
  leave(around().ranges);
}

void RuntimeCall::begin(const char* name, const StreamState* stream) {
  // Nodes of a replayed graph are not calls of the program.
  if (t_in_node || !name) return;
  if (is_counted() && waits(name)) {
    name_ = name;
    counted_since_ = now_ns();
  }
  if (!is_written()) return;
  name_ = name;
  stream_ = stream;
  correlation_ = next_correlation();
  start_ = c10::getApproximateTime();
}

void RuntimeCall::end() {
  if (start_) write_down();
  if (counted_since_) {
    const int64_t ns = now_ns() - counted_since_;
    count_work(Counted::Wait, named(name_), DeviceWork::site(), ns, 0);
  }
}

void RuntimeCall::write_down() {
  Activity a = begun(Doing::Runtime, name_, t_current_device);
  a.end = std::exchange(a.start, start_);
  if (stream_) {
    a.of_stream = true;
    a.device = stream_->device;
    a.stream = stream_->id;
  }
  a.correlation = correlation_;
  if (event_) {
    a.event = reinterpret_cast<uint64_t>(event_);
    const std::lock_guard<std::mutex> lock(g_mutex);
    if (const auto found = recordings().find(event_); found != recordings().end())
      std::tie(a.recorded, a.recorded_on) = found->second;
  }
  write(std::move(a));
}

void RuntimeCall::remember(const EventState& event) const {
  const std::lock_guard<std::mutex> lock(g_mutex);
  recordings()[&event] = {correlation_, stream_ ? stream_->id : 0};
}

bool DeviceWork::underway() {
  return t_underway != nullptr;
}

void DeviceWork::begin(const std::string& op, c10::DeviceIndex device) {
  if (t_underway || t_in_node) return;
  active_ = true;
  t_underway = &now_;
  exceptions_ = std::uncaught_exceptions();
  if (is_counted()) begin_counted(now_, op, site_now());
  if (!is_written()) return;
  now_.written = true;
  now_.called = c10::getApproximateTime();
  now_.work = begun(Doing::Kernel, kernel_name(op), device);
}

Site DeviceWork::site() {
  return t_underway && t_underway->op ? t_underway->site : site_now();
}

void DeviceWork::is_copy(const char* name, int64_t bytes) {
  if (!t_underway) return;
  Activity& work = t_underway->work;
  work.doing = Doing::Memcpy;
  work.name = name;
  work.bytes = bytes;
}

void DeviceWork::is_kernel(const std::string& op, const char* name) {
  if (!t_underway) return;
  // Override what nested operators reported: a copy, or no work.
  t_underway->nothing = false;
  Activity& work = t_underway->work;
  work.doing = Doing::Kernel;
  work.name = kernel_name(op) + " (" + name + ")";
  work.bytes = -1;
}

void DeviceWork::is_awaited() {
  if (t_underway) t_underway->awaited = true;
}

void DeviceWork::is_nothing() {
  if (t_underway) t_underway->nothing = true;
}

void DeviceWork::end() {
  t_underway = nullptr;
  if (now_.nothing || std::uncaught_exceptions() > exceptions_) return;
  if (now_.op) count_done(now_);
  if (!now_.written) return;
  Activity& work = now_.work;
  work.end = c10::getApproximateTime();
  work.correlation = next_correlation();
  write(call_for(work, now_.called, launching(work.doing)));
  if (now_.awaited) {
    Activity wait = begun(Doing::Runtime, "cudaStreamSynchronize", work.device);
    wait.of_stream = true;
    wait.stream = work.stream;
    wait.start = work.end;
    wait.end = c10::getApproximateTime();
    wait.correlation = next_correlation();
    write(std::move(wait));
  }
  write(std::move(work));
}

GraphLaunch::GraphLaunch(c10::DeviceIndex device) : active_(is_profiled()) {
  if (!active_) return;
  if (is_counted()) site_ = site_now();
  written_ = is_written();
  if (!written_) return;
  call_ = begun(Doing::Runtime, "cudaGraphLaunch", device);
  call_.correlation = t_graph = next_correlation();
  call_.launches = true;
}

GraphLaunch::~GraphLaunch() {
  if (!active_) return;
  done();
  if (!written_) return;
  t_graph = 0;
  call_.end = c10::getApproximateTime();
  write(std::move(call_));
}

void GraphLaunch::done() {
  if (t_underway != &now_) return;
  t_underway = nullptr;
  if (now_.nothing) return;
  if (now_.op) count_done(now_);
  if (!now_.written) return;
  now_.work.end = c10::getApproximateTime();
  write(std::move(now_.work));
}

void GraphLaunch::next(const std::string& name, c10::DeviceIndex device, bool computes) {
  if (!active_) return;
  done();
  const int node = nodes_++;
  if (!computes) return;
  // Drop the overload name: activities outside of graphs are named without it, too.
  const std::string op = name.substr(0, name.find('.'));
  now_ = {};
  if (is_counted()) begin_counted(now_, op, site_);
  if (written_) {
    now_.written = true;
    now_.work = begun(Doing::Kernel, kernel_name(op), device);
    now_.work.correlation = call_.correlation;
    now_.work.graph_node = node;
  }
  t_underway = &now_;
}

void add_sleep(c10::DeviceIndex device, int64_t delay_ns, int64_t ns) {
  const auto called = c10::getApproximateTime();
  Activity work = begun(Doing::Kernel, kernel_name("sleep"), device);
  work.end = work.start;
  work.delay_ns = delay_ns;
  work.longer_ns = ns;
  work.correlation = t_graph ? t_graph : next_correlation();
  if (!t_graph) write(call_for(work, called, launching(work.doing)));
  write(std::move(work));
}

void lock_activities_for_fork() {
  g_mutex.lock();
}
void unlock_activities_after_fork() {
  g_mutex.unlock();
}

}  // namespace hostdevice
