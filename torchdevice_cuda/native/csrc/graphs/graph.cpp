#include "graphs/graph.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <utility>

#include "operators/alias.h"
#include "operators/boxed.h"
#include "operators/operator_info.h"
#include "operators/recorded.h"
#include "runtime/activities.h"
#include "runtime/allocator.h"
#include "runtime/checkpoints.h"
#include "runtime/failure.h"
#include "runtime/generator.h"
#include "runtime/kernel_accesses.h"
#include "runtime/observer.h"
#include "runtime/segments.h"

namespace hostdevice {
namespace {

using c10::IValue;
using torch::jit::Stack;

// The functions that were replaced (recorded.h).
Record g_next = nullptr;
RecordWork g_next_work = nullptr;

// Whether a call does work on the device, rather than read or change a tensor's shape.
bool computes(const c10::OperatorHandle& op, const OperatorInfo& f) {
  if (op.hasTag(at::Tag::inplace_view)) return false;
  return f.writes || f.tensor_returns || f.returns == 0;
}

// Whether indices would be copied to the GPU. A mask's elements would be counted, which is refused as a
// synchronization.
bool is_indexed_by_host(const IValue& indices) {
  bool any = false;
  each_tensor(indices, Kind::OptionalTensorList, [&](const at::Tensor& t) {
    any = any || (t.device().is_cpu() && t.scalar_type() != at::kBool && t.scalar_type() != at::kByte);
  });
  return any;
}

void record(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const OperatorInfo& f = get_operator_info(op);
  const auto arguments = c10::ArrayRef<IValue>(*stack).slice(stack->size() - f.args.size());
  const auto index = device_of_call(f, arguments);
  const auto capture = current_capture(index);
  if (capture && f.is_indexing && is_indexed_by_host(arguments[1])) refuse_pageable_copy();
  if (capture && computes(op, f)) {
    const RuntimeCall launched("cudaLaunchKernel");
    static_cast<Recording&>(*capture).call(op, f, keys, index, stack);
    return;
  }
  g_next(op, keys, stack);
}

void record_work(const char* name, c10::DeviceIndex index, const std::function<void()>& work) {
  const auto capture = current_capture(index);
  if (!capture) {
    g_next_work(name, index, work);
    return;
  }
  CapturedAllocations allocations;
  {
    const InNode whole;
    const auto saved = std::exchange(t_captured, {&allocations, nullptr, 0});
    const auto restore = c10::make_scope_exit([&] { t_captured = saved; });
    work();
  }
  static_cast<Recording&>(*capture).add_with_memory(name, index, work, true, std::move(allocations));
}

GeneratorImpl& impl_of(const at::Generator& generator) {
  return *static_cast<GeneratorImpl*>(generator.unsafeGetGeneratorImpl());
}

}  // namespace

void install_recording() {
  g_next = std::exchange(g_record, &record);
  g_next_work = std::exchange(g_record_work, &record_work);
}

// ---- recording -----------------------------------------------------------------------------------------------------

void Recording::allocated(void* address, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  journal_.add_own(static_cast<char*>(address), bytes);
}

void Recording::call(
    const c10::OperatorHandle& op, const OperatorInfo& f, c10::DispatchKeySet keys, c10::DeviceIndex index,
    Stack* stack) {
  const size_t base = stack->size() - f.args.size();
  const std::vector<IValue> arguments(stack->begin() + static_cast<ptrdiff_t>(base), stack->end());
  for (const auto i : f.interesting) {
    if (!f.args[i].changed) continue;
    materialize(arguments[i]);
    const std::lock_guard<std::mutex> lock(mutex_);
    each_tensor(arguments[i], f.args[i].kind, [&](const at::Tensor& t) { journal_.save(t); });
  }
  // Restore host memory after the call, because the host may read it before a replay.
  Journal hosts;
  for (const auto i : f.interesting)
    if (f.args[i].changed)
      each_tensor(arguments[i], f.args[i].kind, [&](const at::Tensor& t) {
        if (!is_device_tensor(t)) hosts.save(t);
      });
  CapturedAllocations allocations;
  const auto recorded = [&](const auto& work) {
    const InNode whole;
    const auto saved = std::exchange(t_captured, {&allocations, nullptr, 0});
    const auto restore = c10::make_scope_exit([&] { t_captured = saved; });
    work();
  };
  recorded([&] { op.redispatchBoxed(keys, stack); });
  hosts.restore();
  count_work(*this, stream_state(index, current_stream(index)));
  Node node(op, f, keys, index, arguments, c10::ArrayRef<IValue>(*stack).slice(base), std::move(allocations));
  const std::lock_guard<std::mutex> lock(mutex_);
  nodes_.push_back(std::move(node));
}

void Recording::add(std::string name, c10::DeviceIndex index, std::function<void()> work, bool computes) {
  add_with_memory(std::move(name), index, std::move(work), computes, {});
}

void Recording::add_with_memory(
    std::string name, c10::DeviceIndex index, std::function<void()> work, bool computes,
    CapturedAllocations allocations) {
  count_work(*this, stream_state(index, current_stream(index)));
  const std::lock_guard<std::mutex> lock(mutex_);
  nodes_.emplace_back(std::move(name), std::move(work), std::vector<const void*>{}, std::move(allocations), computes);
}

void Recording::add_kernel(
    const char* name, c10::DeviceIndex index, std::function<void()> run, std::vector<const void*> pointers) {
  add(name, index, watch(name, index, std::move(run), std::move(pointers)), true);
}

std::function<void()> Recording::watch(
    const char* name, c10::DeviceIndex index, std::function<void()> run, std::vector<const void*> pointers) {
  if (!g_watches_kernels.load() || pointers.empty()) return run;
  const auto& stream = stream_state(index, current_stream(index));
  observe([&](StreamObserver& o) { o.capture_kernel(stream, name); });
  const size_t number = watched_kernels_.fetch_add(1);
  const auto accesses = std::make_shared<KernelAccesses>();
  return [accesses, capture = id(), number, run = std::move(run), pointers = std::move(pointers)] {
    accesses->begin(pointers);
    run();
    const auto found = accesses->end();
    observe([&](StreamObserver& o) { o.run_captured_kernel(capture, number, found); });
  };
}

void Recording::begin_foreign(const std::vector<std::pair<uintptr_t, size_t>>& memory) {
  const std::lock_guard<std::mutex> lock(mutex_);
  foreign_.clear();
  for (const auto& [address, bytes] : memory) {
    auto* const at = reinterpret_cast<char*>(address);
    journal_.save(at, at + bytes);
    foreign_.push_back(at);
  }
  foreign_allocations_ = {};
  t_captured = {&foreign_allocations_, nullptr, 0};
  t_in_node = true;
}

void Recording::end_foreign(
    c10::DeviceIndex index, std::function<void()> again, const std::string& name, std::vector<const void*> pointers) {
  t_captured = {};
  t_in_node = false;
  if (!again) return;
  again = watch(name.c_str(), index, std::move(again), std::move(pointers));
  count_work(*this, stream_state(index, current_stream(index)));
  const std::lock_guard<std::mutex> lock(mutex_);
  nodes_.emplace_back("compiled code", std::move(again), foreign_, foreign_allocations_);
}

std::vector<Node> Recording::take_nodes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::move(nodes_);
}

// ---- graphs --------------------------------------------------------------------------------------------------------

Graph::~Graph() {
  abandon();
  reset();
  if constexpr (!kEachGraphKeepsSeeds)
    for (const auto& g : generators_) impl_of(g.state).remove_graph();
}

void Graph::register_generator(const at::Generator& generator) {
  refuse_in_capture(t_current_device, "Cannot register the state during capturing stage.");
  if (!captured_) device_ = t_current_device;
  auto& given = impl_of(generator);
  for (const auto& g : generators_)
    if (given.shares_state(impl_of(g.state))) return;
  Drawn drawn{at::Generator(given.graphsafe_get_state())};
  if constexpr (kEachGraphKeepsSeeds) {
    // Allocate from the default stream.
    const auto stream = exchange_stream(device_, 0);
    const auto restore = c10::make_scope_exit([&] { exchange_stream(device_, stream); });
    for (auto& kept : drawn.kept) kept = allocate(sizeof(int64_t), device_);
  } else {
    given.add_graph();
  }
  generators_.push_back(std::move(drawn));
}

void Graph::begin(PoolId pool, CaptureMode mode) {
  mark_used();
  device_ = t_current_device;
  check_before_launch(device_);
  register_generator(default_generator(device_));
  const auto recording = std::make_shared<Recording>(stream_state(device_, current_stream(device_)), mode);
  begin_capture(recording);
  recording_ = recording;
  pool_begin(device_, pool, true, recording->id());
  pool_ = pool;
  holds_pool_ = true;
  for (const auto& segment : checkpoint_pool(device_, pool).segments)
    for (const auto& piece : segment)
      if (piece.allocated) recording->journal().add_used(piece.ptr, piece.size);
  for (const auto& g : generators_) impl_of(g.state).begin_capture();
}

bool Graph::holds_current_stream() const {
  const auto index = t_current_device;
  return recording_ && &recording_->origin() == &stream_state(index, current_stream(index));
}

bool Graph::takes_current_stream() const {
  const auto index = t_current_device;
  return recording_ && stream_state(index, current_stream(index)).capture.load() == recording_->id();
}

// Restore the program's memory and generators.
void Graph::leave_capture() {
  for (auto& g : generators_) g.words = impl_of(g.state).end_capture();
  pool_end(device_, pool_);
  recording_->journal().restore();
}

void Graph::end() {
  const auto ended = c10::make_scope_exit([&] { recording_.reset(); });
  const auto left = c10::make_scope_exit([&] { leave_capture(); });
  capture_ = recording_->id();
  end_capture(*recording_);
  nodes_ = std::make_shared<const std::vector<Node>>(recording_->take_nodes());
  for (const auto& node : *nodes_)
    addresses_.insert(addresses_.end(), node.addresses().begin(), node.addresses().end());
  std::sort(addresses_.begin(), addresses_.end());
  addresses_.erase(std::unique(addresses_.begin(), addresses_.end()), addresses_.end());
  watches_kernels_ = recording_->watches_kernels();
  captured_ = true;
}

// Check for memory that was released to the system since: an illegal access on a GPU would end the process here.
void Graph::check_memory() const {
  for (const void* p : addresses_)
    if (p && !addresses().find(p)) throw_capture_error(CaptureError::IllegalAddress);
}

bool Graph::can_run_later() const {
  return !watches_kernels_ &&
      std::all_of(generators_.begin(), generators_.end(), [](const Drawn& g) { return g.words == 0; }) &&
      std::all_of(nodes_->begin(), nodes_->end(), [](const Node& node) { return node.computes(); });
}

void Graph::replay() {
  const std::lock_guard<std::mutex> lock(replaying_);
  check_fork();
  refuse_in_capture(t_current_device, "Cannot prepare for replay during capturing stage.");
  check_before_launch(device_);
  check_memory();
  auto& stream = stream_state(device_, current_stream(device_));
  observe([&](StreamObserver& o) { o.launch_graph(capture_, stream); });
  if (!nodes_) return;
  const auto run = [nodes = nodes_] {
    for (const auto& node : *nodes) node.replay();
  };
  if (can_run_later() && run_later(stream, "cudaGraphLaunch", run)) return;
  observe([&](StreamObserver& o) { o.run_work(stream, "cudaGraphLaunch", {}); });
  static const c10::DispatchKeySet excluded =
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset | c10::python_ks;
  const c10::impl::ExcludeDispatchKeyGuard below(excluded);
  const InNode whole;
  const auto device = c10::make_scope_exit([saved = t_current_device] { t_current_device = saved; });
  GraphLaunch launch(device_);
  for (const auto& node : *nodes_) {
    if (is_profiled()) {
      launch.next(node.name(), node.device(), node.computes());
      if (node.get_copy_name()) DeviceWork::mark_copy(node.get_copy_name(), node.get_copied_bytes());
    }
    node.replay();
  }
  for (const auto& g : generators_) impl_of(g.state).skip(g.words);
  observe([&](StreamObserver& o) { o.end_launch(capture_); });
}

void Graph::abandon() {
  if (!recording_) return;
  try {
    end();
  } catch (const c10::Error&) {  // the failure of this capture was reported before
  }
}

void Graph::reset() {
  if (recording_) return;  // the capture continues, as on CUDA
  if (captured_) observe([&](StreamObserver& o) { o.destroy_graph(capture_); });
  nodes_.reset();
  addresses_.clear();
  captured_ = false;
  if (holds_pool_) pool_release(device_, pool_);
  holds_pool_ = false;
}

std::vector<std::string> Graph::names() const {
  std::vector<std::string> out;
  if (nodes_)
    for (const auto& node : *nodes_) out.push_back(node.name());
  return out;
}

}  // namespace hostdevice
