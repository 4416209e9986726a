#include "deferral/intercept.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/clone.h>
#include <c10/core/impl/COW.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "deferral/schedule.h"
#include "inference/inference.h"
#include "nodes/node.h"
#include "operators/alias.h"
#include "operators/boxed.h"
#include "operators/dtypes.h"
#include "operators/operator_info.h"
#include "operators/recorded.h"
#include "operators/tensors.h"
#include "operators/types.h"
#include "runtime/allocator.h"
#include "runtime/captured_allocations.h"
#include "runtime/captures.h"
#include "runtime/failure.h"
#include "runtime/observer.h"
#include "runtime/pinned.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

using c10::IValue;
using torch::jit::Stack;
using Arguments = c10::ArrayRef<IValue>;

// The functions that were replaced (recorded.h).
Record g_next = nullptr;
RecordWork g_next_work = nullptr;

struct Counts {
  std::mutex mutex;
  std::map<std::string, DeferralCounts> by_operator;
};
Counts& counts() {
  static auto* one = new Counts;
  return *one;
}
void count(const c10::OperatorHandle& op, uint64_t DeferralCounts::* kind) {
  const std::lock_guard<std::mutex> lock(counts().mutex);
  (counts().by_operator[c10::toString(op.operator_name())].*kind)++;
}

StreamState& get_current_stream(c10::DeviceIndex index) {
  return stream_state(index, current_stream(index));
}

// What a call does with the memory of its tensors.
struct Tensors {
  std::vector<c10::DeviceIndex> devices;
  bool are_plain = true;
  bool has_host_memory = false;  // more than single elements, which are passed by value
  Types types = 0;
};
Tensors look_at(const OperatorInfo& f, Arguments arguments) {
  Tensors found;
  for (const auto i : f.interesting) {
    each_tensor(arguments[i], f.args[i].kind, [&](const at::Tensor& t) {
      found.types |= types_of(t.scalar_type());
      found.are_plain = found.are_plain && is_plain(t) && !t.is_conj() && !t.is_neg() && !t._is_zerotensor() &&
          !c10::impl::cow::is_cow_data_ptr(t.storage().data_ptr());
      if (!is_device_tensor(t)) {
        found.has_host_memory = found.has_host_memory || t.dim() > 0 || f.args[i].changed || f.is_indexing;
      } else if (std::find(found.devices.begin(), found.devices.end(), t.device().index()) == found.devices.end()) {
        found.devices.push_back(t.device().index());
      }
    });
  }
  return found;
}

// Whether CUDA's kernel runs after the call has returned, and nothing that the host sees depends on it.
bool runs_later(
    const OperatorInfo& f, c10::DispatchKeySet keys, const Stack& stack, size_t base, const Tensors& given) {
  if (keys != c10::DispatchKeySet(kDense) || !given.are_plain || given.devices.size() > 1) return false;
  if (f.keep_alive || f.asks_grad || f.reads_back || is_launch_blocking()) return false;
  if (f.waiting && (!f.waiting->holds || f.waiting->holds(stack, base))) return false;
  if (f.nondeterministic && at::globalContext().deterministicAlgorithms()) return false;
  // Arguments of several types may be converted first.
  const Types exclusive = given.types & f.exclusive;
  return (exclusive & (exclusive - 1)) == 0;
}

// Return the arguments of a copy that runs later; none if CUDA returns when it is done. Pageable memory is read before
// the call returns, if it is small enough to be passed along with the command.
std::optional<std::vector<IValue>> prepare_copy(Arguments arguments) {
  constexpr size_t kGoesAlong = 64 << 10;
  std::vector<IValue> prepared(arguments.begin(), arguments.end());
  const at::Tensor &self = arguments[0].toTensor(), &src = arguments[1].toTensor();
  if (is_device_tensor(self) && is_device_tensor(src)) return prepared;
  const at::Tensor& host = is_device_tensor(self) ? src : self;
  if (!arguments[2].toBool() || !host.numel()) return std::nullopt;
  if (is_pinned(host.storage().data())) return prepared;
  if (!src.is_cpu() || src.nbytes() > kGoesAlong) return std::nullopt;
  const c10::impl::ExcludeDispatchKeyGuard below(
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset | c10::python_ks);
  prepared[1] = src.clone();
  return prepared;
}

// Return the memory of new results, for the kernel that allocates it.
CapturedAllocations list_allocations(const Stack& results, Arguments arguments) {
  CapturedAllocations allocations;
  const auto is_argument = [&](const at::Tensor& t) {
    return std::any_of(arguments.begin(), arguments.end(), [&](const IValue& v) {
      bool found = false;
      each_result(v, [&](const at::Tensor& given) { found = found || given.is_same(t); });
      return found;
    });
  };
  for (const auto& v : results)
    each_result(v, [&](const at::Tensor& t) {
      if (t.storage().nbytes() && !is_argument(t))
        allocations.entries.push_back({t.storage().nbytes(), t.storage().mutable_data()});
    });
  return allocations;
}

void issue_call(
    const c10::OperatorHandle& op, const OperatorInfo& f, c10::DispatchKeySet keys, c10::DeviceIndex index,
    Arguments arguments, const Stack& results, CapturedAllocations allocations) {
  const auto node = std::make_shared<const Node>(op, f, keys, index, arguments, results, std::move(allocations));
  count(op, &DeferralCounts::deferred);
  const auto run = [node, op] {
    if (!node->replay()) count(op, &DeferralCounts::relaid);
  };
  schedule().issue(get_current_stream(index), {op.schema().name(), run, {}});
}

// Issue a call, and replace its arguments by its results. Return false if it cannot be deferred.
bool defer_call(
    const c10::OperatorHandle& op, const OperatorInfo& f, c10::DispatchKeySet keys, c10::DeviceIndex index,
    const Tensors& given, Stack* stack) {
  const size_t base = stack->size() - f.args.size();
  if (!runs_later(f, keys, *stack, base, given)) return false;
  check_before_launch(index);
  std::vector<IValue> arguments(stack->begin() + static_cast<ptrdiff_t>(base), stack->end());
  Stack results;
  CapturedAllocations allocations;
  if (op.schema().name() == "aten::copy_") {
    auto prepared = prepare_copy(arguments);
    if (!prepared) return false;
    results.push_back(arguments[0]);
    arguments = std::move(*prepared);
  } else {
    if (given.has_host_memory) return false;
    if (f.row->takes != ~Types{0}) check_dtype(*f.row, *stack, base);
    const auto inferred = infer(op, f, keys, index, arguments, InferBy::kTrying);
    if (!inferred || !inferred->is_plain) return false;
    results = make_results(*inferred, f, arguments, index);
    allocations = list_allocations(results, arguments);
    allocations.draws = reserve_draws(*inferred, arguments, index);
  }
  issue_call(op, f, keys, index, arguments, results, std::move(allocations));
  stack->resize(base);
  stack->insert(stack->end(), results.begin(), results.end());
  return true;
}

void defer(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const OperatorInfo& f = get_operator_info(op);
  if (!schedule().is_on() || has_captures()) return g_next(op, keys, stack);
  // Only resizing reads elements, which it may move.
  const bool moves = op.schema().name().rfind("aten::resize", 0) == 0;
  if (!f.launches && !moves) return g_next(op, keys, stack);
  const auto arguments = torch::jit::last(*stack, f.args.size());
  const Tensors given = look_at(f, arguments);
  const auto index = device_of_call(f, arguments);
  if (!moves && defer_call(op, f, keys, index, given, stack)) return;
  count(op, &DeferralCounts::at_once);
  schedule().run_before_next(get_current_stream(index));
  for (const auto other : given.devices) schedule().run_before_next(get_current_stream(other));
  g_next(op, keys, stack);
}

void defer_work(const char* name, c10::DeviceIndex index, const std::function<void()>& work) {
  if (schedule().is_on() && !has_captures()) schedule().run_before_next(get_current_stream(index));
  g_next_work(name, index, work);
}

// Runs deferred work before the host reads what it writes.
class DeferralObserver final : public StreamObserver {
 public:
  void record_event(const EventState& event, const StreamState& stream) override {
    if (is_outside()) schedule().record_event(event, stream);
  }
  void wait_for_event(const StreamState& stream, const EventState& event) override {
    if (is_outside()) schedule().wait_for_event(stream, event);
  }
  void destroy_event(const EventState& event) override {
    if (is_outside()) schedule().forget_event(event);
  }
  void synchronize(const StreamState& stream) override {
    wait(stream.device, [&] { schedule().run_before_next(stream); });
  }
  void synchronize(const EventState& event) override {
    wait(event.device.load(), [&] { schedule().run_before(event); });
  }
  void synchronize(c10::DeviceIndex device) override {
    wait(device, [&] { schedule().run_all(device); });
  }
  void begin_query(const StreamState& stream) override {
    synchronize(stream);
  }
  void begin_query(const EventState& event) override {
    synchronize(event);
  }
  void run_work(const StreamState& stream, const char*, const std::vector<ObservedAccess>&) override {
    // Collectives are issued themselves.
    if (is_outside() && !is_collective_stream(stream.id)) schedule().run_before_next(stream);
  }
  void begin_capture(const StreamState&) override {
    if (is_outside()) schedule().run_all(-1);
  }
  void begin_release(c10::DeviceIndex device) override {
    if (is_outside()) schedule().run_all(device);
  }

 private:
  static bool is_outside() {
    return schedule().is_on() && !t_in_deferred_work;
  }
  template <class F>
  static void wait(c10::DeviceIndex device, const F& run) {
    if (!is_outside()) return;
    run();
    schedule().raise_error();
    check_before_wait(device);
  }
};

}  // namespace

void start_deferral(uint64_t seed) {
  static const bool installed = [] {
    g_next = std::exchange(g_record, &defer);
    g_next_work = std::exchange(g_record_work, &defer_work);
    add_observer(*new DeferralObserver);
    g_interceptors.fetch_add(1);
    return true;
  }();
  static_cast<void>(installed);
  schedule().start(seed);
  // Elements that an earlier run of the program has left would hide that this run reads memory too early.
  empty_cache();
  host_empty_cache();
  g_defer.store([](StreamState& stream, const char* name, std::function<void()> work, Arrival arrival) {
    schedule().issue(stream, {name, std::move(work), std::move(arrival)});
  });
  const std::lock_guard<std::mutex> lock(counts().mutex);
  counts().by_operator.clear();
}

void stop_deferral() {
  g_defer.store(nullptr);
  schedule().stop();
}

std::map<std::string, DeferralCounts> read_deferral_counts() {
  const std::lock_guard<std::mutex> lock(counts().mutex);
  return counts().by_operator;
}

}  // namespace hostdevice
