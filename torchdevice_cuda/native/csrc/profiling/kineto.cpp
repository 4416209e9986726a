// The device's activities for Kineto, with which PyTorch's profiler collects. Kineto queries registered profilers where
// it would query CUPTI about a GPU. It merges these activities with operators and the program's ranges, so that
// PyTorch's own code creates events, tables and traces.
#include "compat.h"
#include "profiling/profiler.h"

#ifdef HOSTDEVICE_KINETO
#define FMT_HEADER_ONLY
#include <c10/util/ApproximateClock.h>
#include <kineto/libkineto.h>
#include <kineto/output_base.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "profiling/cuda_names.h"
#include "runtime/activities.h"
#include "runtime/device.h"

namespace hostdevice {
namespace {

using libkineto::ActivityType;
using libkineto::GenericTraceActivity;

// Kineto's sort index of devices, which come after every process.
constexpr int64_t kAfterProcesses = 5000000;
// CUDA creates one context per device.
constexpr int kContext = 1;

std::mutex g_properties_mutex;
std::string& properties() {
  static auto* text = new std::string;
  return *text;
}

ActivityType type_of(ActivityKind kind) {
  switch (kind) {
    case ActivityKind::Kernel:
      return ActivityType::CONCURRENT_KERNEL;
    case ActivityKind::Memcpy:
      return ActivityType::GPU_MEMCPY;
    case ActivityKind::Runtime:
      break;
  }
  return ActivityType::CUDA_RUNTIME;
}

const std::set<ActivityType>& known_types() {
  static const auto* types = new std::set<ActivityType>{
      ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY, ActivityType::CUDA_RUNTIME,
      ActivityType::GPU_USER_ANNOTATION, ActivityType::CUDA_SYNC};
  return *types;
}

// One profile, from its warm-up until its results are read.
class Session final : public libkineto::IActivityProfilerSession {
 public:
  explicit Session(std::set<ActivityType> types) : types_(std::move(types)) {}
  ~Session() override {
    if (running_) end_activities();
  }

  void start() override {
    status_ = libkineto::TraceStatus::RECORDING;
    clock_ = std::make_unique<c10::ApproximateClockToUnixTimeConverter>();
    running_ = true;
    begin_activities();
  }

  void stop() override {
    if (!running_) return;
    activities_ = end_activities();
    running_ = false;
    status_ = libkineto::TraceStatus::PROCESSING;
  }

  std::vector<std::string> errors() override {
    return {};
  }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) { return nullptr; }, 0, INT64_MAX);
  }

  void processTrace(
      libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t begin, int64_t) override {
    if (!clock_) return;
    const auto unix_ns = clock_->makeConverter();
    for (auto& a : activities_) add(a, unix_ns, linked);
    for (auto& [key, range] : ranges_) range.second->endTime = range.first;
    activities_.clear();
    // The logger keeps copies.
    for (const auto& activity : made_) activity.log(logger);
    made_.clear();
    describe(logger, begin);
  }

  // `describe` reports the other devices; without this one Kineto would write rows for 16.
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    return std::make_unique<libkineto::DeviceInfo>(device_info(0));
  }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    return {};
  }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    return nullptr;
  }

  void pushCorrelationId(uint64_t id) override {
    enter_op(id);
  }
  void popCorrelationId() override {
    leave_op();
  }
  void pushUserCorrelationId(uint64_t id) override {
    enter_range(id);
  }
  void popUserCorrelationId() override {
    leave_range();
  }
  std::string getDeviceProperties() override {
    const std::lock_guard<std::mutex> lock(g_properties_mutex);
    return properties();
  }

 private:
  using Clock = std::function<c10::time_t(c10::approx_time_t)>;
  using Linked = libkineto::getLinkedActivityCallback;
  using Stream = std::pair<c10::DeviceIndex, c10::StreamId>;

  static libkineto::DeviceInfo device_info(int index) {
    return {
        index, index + kAfterProcesses, libkineto::processName(libkineto::processId()), "GPU " + std::to_string(index)};
  }

  GenericTraceActivity& emplace(ActivityType type, const std::string& name) {
    // Share one span: another would add a row that a GPU's traces do not have.
    static const auto* span = new libkineto::TraceSpan(0, 0, "virtual GPU");
    return made_.emplace_back(*span, type, name);
  }

  // A stream runs one activity after the other, even if several threads compute for it at once.
  int64_t begins_in(const Stream& stream, int64_t start) {
    return std::max(start, free_[stream]);
  }

  void add(Activity& a, const Clock& unix_ns, const Linked& linked) {
    int64_t start = unix_ns(a.start);
    int64_t end = std::max(unix_ns(a.end), start);
    const auto* op = a.op ? linked(static_cast<int32_t>(a.op)) : nullptr;
    // The operator's times were converted by another clock: clamp the activity to them.
    if (op) {
      const int64_t last = op->timestamp() + std::max<int64_t>(op->duration(), 0);
      start = std::clamp(start, op->timestamp(), last);
      end = std::clamp(end, start, last);
    }
    const auto type = type_of(a.kind);
    if (a.kind == ActivityKind::Runtime) {
      if (!types_.count(type)) return;
      auto& call = emplace(type, a.name);
      call.startTime = start;
      call.endTime = end;
      call.device = libkineto::processId();
      call.resource = call.threadId = a.thread;
      call.linked = op;
      call.addMetadata("cbid", callback_id(a.name));
      correlate(call, a, a.launches);
      add_wait(a, start, end);
      return;
    }
    const Stream stream{a.device, a.stream};
    const int64_t length = end - start + a.extra_ns;
    start = begins_in(stream, start + a.delay_ns);
    free_[stream] = end = start + length;
    if (!types_.count(type)) return;
    const int number = stream_number(stream);
    auto& work = emplace(type, a.name);
    work.startTime = start;
    work.endTime = end;
    work.device = a.device;
    work.resource = number;
    work.linked = op;
    if (a.kind == ActivityKind::Kernel) work.addMetadata("queued", 0);
    work.addMetadata("device", static_cast<int>(a.device));
    work.addMetadata("context", kContext);
    work.addMetadata("stream", number);
    if (a.bytes >= 0) {
      work.addMetadata("bytes", a.bytes);
      work.addMetadata(
          "memory bandwidth (GB/s)", static_cast<double>(a.bytes) / std::max<double>(1.0, static_cast<double>(length)));
    }
    if (a.graph_node >= 0) work.addMetadata("graph node id", a.graph_node);
    correlate(work, a, false);
    if (a.range && types_.count(ActivityType::GPU_USER_ANNOTATION)) extend_range(a.range, work, linked);
  }

  // Add a synchronization as a row of the device.
  void add_wait(const Activity& a, int64_t start, int64_t end) {
    const char* kind = kind_of_wait(a.name);
    if (!kind || !types_.count(ActivityType::CUDA_SYNC)) return;
    const int number = a.of_stream ? stream_number({a.device, a.stream}) : -1;
    auto& wait = emplace(ActivityType::CUDA_SYNC, kind);
    wait.startTime = start;
    wait.endTime = end;
    wait.device = a.device;
    wait.resource = number;
    wait.id = static_cast<int32_t>(a.correlation);
    wait.addMetadataQuoted("cuda_sync_kind", kind);
    if (a.recorded) {
      wait.addMetadata("wait_on_stream", stream_number({a.device, a.recorded_on}));
      wait.addMetadata("wait_on_cuda_event_record_corr_id", a.recorded);
      wait.addMetadata("wait_on_cuda_event_id", a.event);
    }
    wait.addMetadata("stream", number);
    wait.addMetadata("correlation", a.correlation);
    wait.addMetadata("device", static_cast<int>(a.device));
    wait.addMetadata("context", kContext);
  }

  static void correlate(GenericTraceActivity& activity, const Activity& a, bool starts) {
    activity.id = static_cast<int32_t>(a.correlation);
    activity.addMetadata("correlation", a.correlation);
    if (a.kind == ActivityKind::Runtime && !starts) return;
    activity.flow.id = a.correlation;
    activity.flow.type = libkineto::kLinkAsyncCpuGpu;
    activity.flow.start = starts;
  }

  // On each stream a range lasts from the first to the last activity launched in it.
  void extend_range(uint64_t id, const GenericTraceActivity& work, const Linked& linked) {
    const auto* opened = linked(static_cast<int32_t>(id));
    if (!opened) return;
    const auto key = std::make_tuple(id, work.device, work.resource);
    const int64_t start = work.startTime, end = work.endTime;
    const int32_t device = work.device, resource = work.resource;
    auto found = ranges_.find(key);
    if (found == ranges_.end()) {
      auto& range = emplace(ActivityType::GPU_USER_ANNOTATION, opened->name());
      range.startTime = start;
      range.device = device;
      range.resource = resource;
      range.id = static_cast<int32_t>(id);
      found = ranges_.emplace(key, std::make_pair(end, &range)).first;
    }
    found->second.first = std::max(found->second.first, end);
  }

  int stream_number(const Stream& stream) {
    const auto found = streams_.find(stream);
    if (found != streams_.end()) return found->second;
    const int number = stream.second == 0 ? kDefaultStream : kFirstStream + static_cast<int>(sides_[stream.first]++);
    streams_.emplace(stream, number);
    return number;
  }

  void describe(libkineto::ActivityLogger& logger, int64_t time) {
    for (int i = 1; i < device_count(); i++) logger.handleDeviceInfo(device_info(i), time);
    for (const auto& [stream, number] : streams_)
      logger.handleResourceInfo(
          make_resource<libkineto::ResourceInfo>(stream.first, number, "stream " + std::to_string(number) + " "), time);
  }

  std::set<ActivityType> types_;
  bool running_ = false;
  std::unique_ptr<c10::ApproximateClockToUnixTimeConverter> clock_;
  std::vector<Activity> activities_;
  std::deque<GenericTraceActivity> made_;  // a deque, so that addresses stay valid
  std::map<Stream, int64_t> free_;
  std::map<Stream, int> streams_;
  std::map<c10::DeviceIndex, unsigned> sides_;
  std::map<std::tuple<uint64_t, int32_t, int32_t>, std::pair<int64_t, GenericTraceActivity*>> ranges_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    static const std::string text = "virtual GPU";
    return text;
  }
  const std::set<ActivityType>& availableActivities() const override {
    return known_types();
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const std::set<ActivityType>& types, const libkineto::Config&) override {
    const auto wanted = [](ActivityType type) { return known_types().count(type) != 0; };
    if (std::none_of(types.begin(), types.end(), wanted)) return nullptr;
    return std::make_unique<Session>(types);
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      int64_t, int64_t, const std::set<ActivityType>& types, const libkineto::Config& config) override {
    return configure(types, config);
  }
};

}  // namespace

void install_kineto() {
  auto& kineto = libkineto::api();
  // Initialize Kineto before PyTorch does, which would make it look for NVIDIA's driver and complain that there is
  // none.
  if (!kineto.isProfilerRegistered()) {
    // The Kineto of a CUDA build still queries the runtime for devices whenever it writes a trace. The log level is
    // read here.
    constexpr const char* kLevel = "KINETO_LOG_LEVEL";
    const bool quiet = !std::getenv(kLevel);
    if (quiet) setenv(kLevel, "5", 1);
    libkineto_init(/*cpuOnly=*/true, /*logOnError=*/false);
    kineto.suppressLogMessages();
    if (quiet) unsetenv(kLevel);
  }
  g_get_thread_id = [] { return libkineto::systemThreadId(); };
  kineto.registerProfilerFactory([] { return std::make_unique<Profiler>(); });
}

void describe_devices(std::string text) {
  const std::lock_guard<std::mutex> lock(g_properties_mutex);
  properties() = std::move(text);
}

}  // namespace hostdevice
#else
namespace hostdevice {
// PyTorch without Kineto, or with one that cannot be extended: profiles contain the host only.
void install_kineto() {}
void describe_devices(std::string) {}
}  // namespace hostdevice
#endif
