#include "clock/clock.h"

#include <c10/util/ScopeExit.h>

#include <chrono>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>

#include "clock/description.h"
#include "clock/kernels.h"
#include "clock/sharing.h"
#include "clock/utilization.h"
#include "operators/boxed.h"
#include "operators/operator_info.h"
#include "operators/recorded.h"
#include "runtime/activities.h"
#include "runtime/captures.h"
#include "runtime/observer.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

using c10::IValue;
using torch::jit::Stack;

// The functions that were replaced (recorded.h).
Record g_next = nullptr;
RecordWork g_next_work = nullptr;
Predict g_predict = nullptr;
ReportKernel g_report = nullptr;
// The host's time to launch a kernel, and the GPU's time between kernels of a stream.
int64_t g_launch_ns = 0, g_gap_ns = 0;
std::atomic<bool> g_is_on{false};
// The time in which calls were computed here.
std::atomic<int64_t> g_computing_ns{0};

int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Takes the time of its scope off the host's clock: a GPU computes meanwhile, and predicting is no work of the program.
class Unclocked {
 public:
  Unclocked() : began_(steady_ns()), still_(began_) {}
  ~Unclocked() {
    const auto ns = steady_ns() - began_;
    g_computing_ns.fetch_add(ns, std::memory_order_relaxed);
    g_clock_offset_ns.fetch_sub(ns, std::memory_order_acq_rel);
  }
  Unclocked(const Unclocked&) = delete;
  Unclocked& operator=(const Unclocked&) = delete;

 private:
  int64_t began_;
  StandingStill still_;
};

// Predictions by the hash of the call. A prediction may run Python, so the lock is not held meanwhile.
class Predictions {
 public:
  Prediction find(const c10::OperatorHandle& op, c10::ArrayRef<IValue> arguments) {
    const auto key = hash_call(op, arguments);
    {
      const std::shared_lock<std::shared_mutex> lock(mutex_);
      const auto found = all_.find(key);
      if (found != all_.end()) return count(found->second);
    }
    const auto made = g_predict(op.schema().name(), arguments);
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    return count(all_.emplace(key, made).first->second);
  }
  // A kernel of other code: its counts are the arguments.
  Prediction find_kernel(const KernelArguments& counts) {
    {
      const std::shared_lock<std::shared_mutex> lock(mutex_);
      const auto found = kernels_.find(counts);
      if (found != kernels_.end()) return count(found->second);
    }
    const std::vector<IValue> arguments(counts.begin(), counts.end());
    const auto made = g_predict("torchdevice_cuda::kernel", arguments);
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    return count(kernels_.emplace(counts, made).first->second);
  }
  void forget() {
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    all_.clear();
    kernels_.clear();
    const std::lock_guard<std::mutex> counting(counting_);
    calls_.clear();
  }
  std::vector<uint64_t> read_calls() {
    const std::lock_guard<std::mutex> lock(counting_);
    return calls_;
  }

 private:
  Prediction count(const Prediction& prediction) {
    if (prediction.id < 0) return prediction;
    const std::lock_guard<std::mutex> lock(counting_);
    const auto id = static_cast<size_t>(prediction.id);
    if (id >= calls_.size()) calls_.resize(id + 1);
    calls_[id]++;
    return prediction;
  }

  std::shared_mutex mutex_;
  std::unordered_map<uint64_t, Prediction> all_;
  std::map<KernelArguments, Prediction> kernels_;
  std::mutex counting_;
  std::vector<uint64_t> calls_;  // by id
};
Predictions& predictions() {
  static auto* all = new Predictions;
  return *all;
}

// Add work to the end of a stream, which takes so many times as long beside a collective (0: any); return its end.
int64_t advance(StreamState& stream, int64_t ns, double crowded = 0) {
  const auto now = now_ns();
  auto ready = stream.ready_ns.load();
  int64_t begin = 0, end = 0;
  do {
    begin = std::max(now, ready);
    end = crowded > 0 ? find_end(stream, begin, ns, crowded) : begin + ns;
  } while (!stream.ready_ns.compare_exchange_weak(ready, end));
  add_busy_time(stream.device, begin, end);
  return end;
}

// Where the graph runs that this thread launched last.
thread_local StreamState* t_replaying = nullptr;
// Sums up its kernels while it runs, if its time here is left out.
thread_local int64_t* t_replayed = nullptr;

// The time of captured work, which a launch of the graph takes.
class Captured final : public StreamObserver {
 public:
  void add(CaptureId id, int64_t ns) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ns_[id] += ns;
  }
  void launch_graph(uint64_t id, const StreamState& stream) override {
    if (!g_is_on.load()) return;
    int64_t ns = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = ns_.find(id);
      if (found != ns_.end()) ns = found->second;
    }
    g_clock_offset_ns.fetch_add(g_launch_ns, std::memory_order_acq_rel);
    t_replaying = &stream_state(stream.device, stream.id);
    advance(*t_replaying, ns);
  }
  void destroy_graph(uint64_t id) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    ns_.erase(id);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<CaptureId, int64_t> ns_;
};
Captured& captured() {
  static auto* all = new Captured;
  return *all;
}

void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (!g_is_on.load(std::memory_order_relaxed)) {
    g_next(op, keys, stack);
    return;
  }
  const OperatorInfo& f = get_operator_info(op);
  const auto arguments = c10::ArrayRef<IValue>(*stack).slice(stack->size() - f.args.size());
  const auto index = device_of_call(f, arguments);
  const auto capture = has_captures() ? current_capture(index) : nullptr;
  Prediction predicted;
  bool waits = false;
  {
    const Unclocked computing;
    predicted = predictions().find(op, arguments);
    waits = f.reads_back || f.only_reads || f.waiting || waits_for_copy(op, arguments);
    take_workspaces(predicted.blas, index);
    const auto restore = c10::make_scope_exit([saved = t_predicted_ns] { t_predicted_ns = saved; });
    t_predicted_ns = predicted.ns;
    g_next(op, keys, stack);
  }
  const auto ns = predicted.ns + g_gap_ns * predicted.launches;
  if (capture) {
    captured().add(capture->id(), ns);
    return;
  }
  g_clock_offset_ns.fetch_add(predicted.launch_ns, std::memory_order_acq_rel);
  const auto end = advance(stream_state(index, current_stream(index)), ns, predicted.crowded);
  if (waits) wait_until(end);
}

// Kernels of other code: there is no prediction, so that the time that they took here is left out.
void run_kernel(StreamState& stream, const char* name, std::function<void()> run, Arrival) {
  if (is_kernel_timed()) {
    const InNode whole;
    run();
    return;
  }
  const bool is_graph = name == std::string_view("cudaGraphLaunch");
  if (!is_graph) g_report(name, false);
  int64_t replayed = 0;
  {
    const Unclocked computing;
    const InNode whole;
    const auto restore = c10::make_scope_exit([saved = std::exchange(t_replayed, &replayed)] { t_replayed = saved; });
    run();
  }
  if (is_graph) {  // the time of its operators was added when it was launched
    advance(stream, replayed);
    return;
  }
  g_clock_offset_ns.fetch_add(g_launch_ns, std::memory_order_acq_rel);
  advance(stream, g_gap_ns);
}

void work(const char* name, c10::DeviceIndex device, const std::function<void()>& run) {
  if (!g_is_on.load(std::memory_order_relaxed)) {
    g_next_work(name, device, run);
    return;
  }
  {
    const Unclocked computing;
    g_next_work(name, device, run);
  }
  g_clock_offset_ns.fetch_add(g_launch_ns, std::memory_order_acq_rel);
  advance(stream_state(device, current_stream(device)), g_gap_ns);
}

}  // namespace

void add_work(
    const std::string& name, c10::DeviceIndex device, int64_t ns, int64_t spent_ns, bool takes_multiprocessors) {
  if (!g_is_on.load(std::memory_order_relaxed)) return;
  g_clock_offset_ns.fetch_add(g_launch_ns - spent_ns, std::memory_order_acq_rel);
  {
    const auto restore = c10::make_scope_exit([saved = t_predicted_ns] { t_predicted_ns = saved; });
    t_predicted_ns = ns;
    DeviceWork launch;
    if (is_profiled()) launch.begin(name, device);
  }
  if (const auto capture = has_captures() ? current_capture(device) : nullptr) {
    captured().add(capture->id(), ns);
    return;
  }
  StreamState& stream = stream_state(device, current_stream(device));
  const auto end = advance(stream, ns);
  if (takes_multiprocessors) add_collective(stream, end - ns, end);
}

int64_t predict_kernel(const KernelArguments& arguments) {
  return predictions().find_kernel(arguments).ns + g_gap_ns;
}
bool is_clock_on() {
  return g_is_on.load(std::memory_order_relaxed);
}
void report_kernel(const char* name, bool is_estimated) {
  g_report(name, is_estimated);
}
void add_kernel(StreamState& stream, int64_t ns, int64_t spent_ns) {
  g_computing_ns.fetch_add(spent_ns, std::memory_order_relaxed);
  if (const auto capture = has_captures() ? capture_of(stream) : nullptr) {
    g_clock_offset_ns.fetch_sub(spent_ns, std::memory_order_acq_rel);
    captured().add(capture->id(), ns);
    return;
  }
  g_clock_offset_ns.fetch_add(g_launch_ns - spent_ns, std::memory_order_acq_rel);
  advance(stream, ns);
}
void add_replayed_kernel(int64_t ns) {
  if (t_replayed)
    *t_replayed += ns;
  else if (t_replaying)
    advance(*t_replaying, ns);
}

void start_clock(Predict predict, ReportKernel report, int64_t launch_ns, int64_t gap_ns) {
  g_predict = predict;
  g_report = report;
  g_launch_ns = launch_ns;
  g_gap_ns = gap_ns;
  predictions().forget();
  forget_collectives();
  if (!g_next) {
    g_next = std::exchange(g_record, &call);
    g_next_work = std::exchange(g_record_work, &work);
    add_observer(captured());
  }
  if (g_is_on.exchange(true)) return;
  g_interceptors.fetch_add(1);
  // A rehearsal runs none of them, and an adversarial order defers them.
  Defer none = nullptr;
  g_defer.compare_exchange_strong(none, &run_kernel);
  simulate_time(true);
  publish_utilization(true);
}

void stop_clock() {
  if (!g_is_on.exchange(false)) return;
  g_interceptors.fetch_sub(1);
  Defer own = &run_kernel;
  g_defer.compare_exchange_strong(own, nullptr);
  simulate_time(false);
  publish_utilization(false);
  clear_workspaces();
}

ClockCounts read_clock_counts() {
  return {predictions().read_calls(), g_computing_ns.load()};
}

}  // namespace hostdevice
