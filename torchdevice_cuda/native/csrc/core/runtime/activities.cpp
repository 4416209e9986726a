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
std::vector<Activity>& recorded_activities() {
  static auto* all = new std::vector<Activity>;
  return *all;
}
// The correlation id of the last call that recorded each event, and the stream that it recorded on.
using Recordings = std::unordered_map<const EventState*, std::pair<uint32_t, c10::StreamId>>;
Recordings& recordings() {
  static auto* all = new Recordings;
  return *all;
}
std::atomic<bool> g_is_begun{false};
// Counts profiles. A thread discards the operator and range ids that an earlier profile left behind.
std::atomic<uint64_t> g_profile{0};
// Correlation ids start far above PyTorch's operator ids. PyTorch's profiler assigns kernels to the event that has
// their id, and took runtime calls for operators when the ranges overlapped.
std::atomic<uint32_t> g_correlation{1U << 30};

struct EnclosingScopes {
  uint64_t profile = 0;
  std::vector<uint64_t> ops, ranges;
};
thread_local EnclosingScopes t_enclosing_scopes;
thread_local WorkInProgress* t_work_in_progress = nullptr;
thread_local uint32_t t_graph = 0;  // correlation id of the cudaGraphLaunch that this thread is in; 0: none

EnclosingScopes& enclosing_scopes() {
  const auto profile = g_profile.load(std::memory_order_relaxed);
  if (t_enclosing_scopes.profile != profile) t_enclosing_scopes = {profile, {}, {}};
  return t_enclosing_scopes;
}

void pop_id(std::vector<uint64_t>& ids) {
  if (!ids.empty()) ids.pop_back();
}

uint32_t next_correlation() {
  return g_correlation.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Start an activity now.
Activity start_activity(ActivityKind kind, std::string name, c10::DeviceIndex device) {
  const auto& here = enclosing_scopes();
  Activity a;
  a.kind = kind;
  a.name = std::move(name);
  a.op = here.ops.empty() ? 0 : here.ops.back();
  a.range = here.ranges.empty() ? 0 : here.ranges.back();
  a.thread = g_get_thread_id ? g_get_thread_id() : 0;
  a.device = device;
  if (kind != ActivityKind::Runtime) {
    a.stream = current_stream(device);
    a.delay_ns = std::max<int64_t>(0, current_stream_ready_ns(device) - now_ns());
  }
  a.start = c10::getApproximateTime();
  return a;
}

// Return whether the host waits for the device in this runtime call.
bool is_synchronizing_call(const char* call) {
  static constexpr std::string_view kEnd = "Synchronize";
  const std::string_view name = call;
  return name.size() > kEnd.size() && name.substr(name.size() - kEnd.size()) == kEnd;
}

constexpr std::string_view kStreamWait = "cudaStreamWaitEvent", kGraphLaunch = "cudaGraphLaunch";

void begin_counted(WorkInProgress& now, const std::string& op, c10::DeviceIndex device, Site site) {
  now.op = intern_name(op);
  now.site = site;
  now.device = device;
  now.stream = current_stream(device);
  now.began_ns = now_ns();
}

void count_done(const WorkInProgress& now) {
  const int64_t ns = t_predicted_ns < 0 ? now_ns() - now.began_ns : t_predicted_ns;
  const Activity& work = now.work;
  Span span{Counted::Kernel, now.op, now.site, now.device, now.stream, now.began_ns, ns, 0, now.of_graph};
  if (work.kind == ActivityKind::Memcpy) {
    span.kind = Counted::Copy;
    span.name = intern_name(work.name);
    span.bytes = work.bytes;
  }
  count_work(span);
  // The time is that of the work.
  if (now.is_awaited) count_work({Counted::Wait, now.op, now.site, now.device, now.stream, now.began_ns + ns, 0});
}

void append_activity(Activity a) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  if (is_recording()) recorded_activities().push_back(std::move(a));
}

// Return the runtime call that launched `work`. It ends when the work starts, although the calling thread does the
// computation: that time, and the memory allocated in it, belong to the operator.
Activity make_launch_call(const Activity& work, c10::approx_time_t called, const char* name) {
  Activity call = work;
  call.kind = ActivityKind::Runtime;
  call.name = name;
  call.end = std::exchange(call.start, called);
  call.delay_ns = call.extra_ns = 0;
  call.bytes = -1;
  call.launches = true;
  return call;
}

const char* launch_call_name(ActivityKind kind) {
  return kind == ActivityKind::Memcpy ? "cudaMemcpyAsync" : "cudaLaunchKernel";
}

// Name a kernel after its operator, because the virtual device runs none of CUDA's kernels. The prefix comes first
// because programs recognize operators by the beginning of a name.
std::string kernel_name(const std::string& op) {
  return "virtual " + op;
}

}  // namespace

thread_local int64_t t_predicted_ns = -1;
std::atomic<uint8_t> g_listeners{0};
int32_t (*g_get_thread_id)() = nullptr;

void set_listener(uint8_t who, bool on) {
  if (on)
    g_listeners.fetch_or(who);
  else
    g_listeners.fetch_and(static_cast<uint8_t>(~who));
}

void begin_activities() {
  const std::lock_guard<std::mutex> lock(g_mutex);
  recorded_activities().clear();
  recordings().clear();
  g_profile.fetch_add(1);
  g_is_begun.store(true);
  set_listener(kRecording, true);
}

std::vector<Activity> end_activities() {
  const std::lock_guard<std::mutex> lock(g_mutex);
  g_is_begun.store(false);
  set_listener(kRecording, false);
  return std::exchange(recorded_activities(), {});
}

void pause_activities(bool paused) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  set_listener(kRecording, g_is_begun.load() && !paused);
}

void enter_op(uint64_t id) {
  enclosing_scopes().ops.push_back(id);
}
void leave_op() {
  pop_id(enclosing_scopes().ops);
}
void enter_range(uint64_t id) {
  enclosing_scopes().ranges.push_back(id);
}
void leave_range() {
  pop_id(enclosing_scopes().ranges);
}

void RuntimeCall::begin(const char* name, const StreamState* stream) {
  // Nodes of a replayed graph are not calls of the program.
  if (t_in_node || !name) return;
  const bool is_stream_wait = name == kStreamWait;
  if (is_counted() && (is_stream_wait || is_synchronizing_call(name))) {
    name_ = name;
    stream_ = stream;
    counted_since_ = now_ns();
    counted_as_ = is_stream_wait ? Counted::StreamWait : Counted::Wait;
  }
  if (!is_recording()) return;
  name_ = name;
  stream_ = stream;
  correlation_ = next_correlation();
  start_ = c10::getApproximateTime();
}

void RuntimeCall::end() {
  if (start_) record();
  if (counted_since_) {
    const int64_t ns = now_ns() - counted_since_;
    const auto device = stream_ ? stream_->device : t_current_device;
    count_work(
        {counted_as_, intern_name(name_), DeviceWork::site(), device, stream_ ? stream_->id : 0, counted_since_, ns});
  }
}

void RuntimeCall::record() {
  Activity a = start_activity(ActivityKind::Runtime, name_, t_current_device);
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
  append_activity(std::move(a));
}

void RuntimeCall::remember(const EventState& event) const {
  const std::lock_guard<std::mutex> lock(g_mutex);
  recordings()[&event] = {correlation_, stream_ ? stream_->id : 0};
}

bool DeviceWork::is_in_progress() {
  return t_work_in_progress != nullptr;
}

void DeviceWork::begin(const std::string& op, c10::DeviceIndex device) {
  if (t_work_in_progress || t_in_node) return;
  begin(op, device, is_counted() ? find_site() : kNoSite);
}

void DeviceWork::begin(const std::string& op, c10::DeviceIndex device, Site site) {
  if (t_work_in_progress || t_in_node) return;
  active_ = true;
  t_work_in_progress = &now_;
  exceptions_ = std::uncaught_exceptions();
  if (is_counted()) begin_counted(now_, op, device, site);
  if (!is_recording()) return;
  now_.is_recorded = true;
  now_.called = c10::getApproximateTime();
  now_.work = start_activity(ActivityKind::Kernel, kernel_name(op), device);
}

Site DeviceWork::site() {
  return t_work_in_progress && t_work_in_progress->op ? t_work_in_progress->site : find_site();
}

void DeviceWork::mark_copy(const char* name, int64_t bytes) {
  if (!t_work_in_progress) return;
  Activity& work = t_work_in_progress->work;
  work.kind = ActivityKind::Memcpy;
  work.name = name;
  work.bytes = bytes;
}

void DeviceWork::mark_kernel(const std::string& op, const char* name) {
  if (!t_work_in_progress) return;
  // Override what nested operators reported: a copy, or no work.
  t_work_in_progress->is_empty = false;
  Activity& work = t_work_in_progress->work;
  work.kind = ActivityKind::Kernel;
  work.name = kernel_name(op) + " (" + name + ")";
  work.bytes = -1;
}

void DeviceWork::mark_awaited() {
  if (t_work_in_progress) t_work_in_progress->is_awaited = true;
}

void DeviceWork::mark_empty() {
  if (t_work_in_progress) t_work_in_progress->is_empty = true;
}

void DeviceWork::end() {
  t_work_in_progress = nullptr;
  if (now_.is_empty || std::uncaught_exceptions() > exceptions_) return;
  if (now_.op) count_done(now_);
  if (!now_.is_recorded) return;
  Activity& work = now_.work;
  work.end = c10::getApproximateTime();
  if (t_predicted_ns >= 0) {
    work.end = work.start;
    work.extra_ns = t_predicted_ns;
  }
  work.correlation = next_correlation();
  append_activity(make_launch_call(work, now_.called, launch_call_name(work.kind)));
  if (now_.is_awaited) {
    Activity wait = start_activity(ActivityKind::Runtime, "cudaStreamSynchronize", work.device);
    wait.of_stream = true;
    wait.stream = work.stream;
    wait.start = work.end;
    wait.end = c10::getApproximateTime();
    wait.correlation = next_correlation();
    append_activity(std::move(wait));
  }
  append_activity(std::move(work));
}

GraphLaunch::GraphLaunch(c10::DeviceIndex device) : active_(is_profiled()), device_(device) {
  if (!active_) return;
  if (is_counted()) {
    site_ = find_site();
    began_ns_ = now_ns();
  }
  is_recorded_ = is_recording();
  if (!is_recorded_) return;
  call_ = start_activity(ActivityKind::Runtime, std::string(kGraphLaunch), device);
  call_.correlation = t_graph = next_correlation();
  call_.launches = true;
}

GraphLaunch::~GraphLaunch() {
  if (!active_) return;
  done();
  if (began_ns_)
    count_work(
        {Counted::Graph, intern_name(std::string(kGraphLaunch)), site_, device_, current_stream(device_), began_ns_,
         now_ns() - began_ns_});
  if (!is_recorded_) return;
  t_graph = 0;
  call_.end = c10::getApproximateTime();
  append_activity(std::move(call_));
}

void GraphLaunch::done() {
  if (t_work_in_progress != &now_) return;
  t_work_in_progress = nullptr;
  if (now_.is_empty) return;
  if (now_.op) count_done(now_);
  if (!now_.is_recorded) return;
  now_.work.end = c10::getApproximateTime();
  append_activity(std::move(now_.work));
}

void GraphLaunch::next(const std::string& name, c10::DeviceIndex device, bool computes) {
  if (!active_) return;
  done();
  const int node = nodes_++;
  if (!computes) return;
  // Drop the overload name: activities outside of graphs are named without it, too.
  const std::string op = name.substr(0, name.find('.'));
  now_ = {};
  if (is_counted()) {
    begin_counted(now_, op, device, site_);
    now_.of_graph = true;
  }
  if (is_recorded_) {
    now_.is_recorded = true;
    now_.work = start_activity(ActivityKind::Kernel, kernel_name(op), device);
    now_.work.correlation = call_.correlation;
    now_.work.graph_node = node;
  }
  t_work_in_progress = &now_;
}

void add_sleep(c10::DeviceIndex device, int64_t delay_ns, int64_t ns) {
  const auto called = c10::getApproximateTime();
  Activity work = start_activity(ActivityKind::Kernel, kernel_name("sleep"), device);
  work.end = work.start;
  work.delay_ns = delay_ns;
  work.extra_ns = ns;
  work.correlation = t_graph ? t_graph : next_correlation();
  if (!t_graph) append_activity(make_launch_call(work, called, launch_call_name(work.kind)));
  append_activity(std::move(work));
}

void lock_activities_for_fork() {
  g_mutex.lock();
}
void unlock_activities_after_fork() {
  g_mutex.unlock();
}

}  // namespace hostdevice
