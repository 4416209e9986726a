// Collectives for Python: the work that the program sees, and all_reduce, which is called most, without Python.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/module.h"
#include "distributed/agreement.h"
#include "distributed/carried_work.h"
#include "distributed/deferred_work.h"
#include "distributed/observed_work.h"
#include "operators/alias.h"
#include "operators/recorded.h"
#include "runtime/captures.h"
#include "runtime/observer.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

Finish make_finish(const py::object& finish) {
  if (finish.is_none()) return {};
  const auto held = hold(finish);
  return [held] {
    const py::gil_scoped_acquire gil;
    (*held)();
  };
}

// `group` is the result of watch_group for the work's backend, or 0.
WorkPtr carried_work(
    std::vector<WorkPtr> parts, std::vector<at::Tensor> outputs, const py::object& finish, uintptr_t group,
    bool is_point_to_point) {
  auto finish_function = make_finish(finish);
  const py::gil_scoped_release nogil;
  auto agreement = group != 0 ? agreement_of(reinterpret_cast<const void*>(group)) : nullptr;
  return make_carried_work(
      std::move(parts), std::move(outputs), std::move(finish_function), std::move(agreement), is_point_to_point);
}

using Tensors = std::vector<at::Tensor>;

// The functions run without the interpreter.
WorkPtr defer_collective(
    int device, int64_t stream, Tensors outputs, const Tensors& written, const Tensors& read, const py::object& begin,
    const py::object& has_come, const py::object& wait, const py::object& finish, bool blocks_host) {
  DeferredSteps steps{make_finish(begin), {{}, make_finish(wait)}, make_finish(finish)};
  steps.arrival.has_come = [held = hold(has_come)] {
    const py::gil_scoped_acquire gil;
    return (*held)().cast<bool>();
  };
  const py::gil_scoped_release nogil;
  return issue_collective(
      collective_stream(static_cast<c10::DeviceIndex>(device), stream), std::move(outputs), written, read,
      std::move(steps), blocks_host);
}

void observe_collective(
    const WorkPtr& work, int device, int64_t stream, const Tensors& written, const Tensors& read, bool blocks_host) {
  observe_work(work, collective_stream(static_cast<c10::DeviceIndex>(device), stream), written, read, blocks_host);
}

// Return CPU tensors over the same memory, which they keep alive. Observers see the collective instead.
Tensors alias_tensors(const Tensors& tensors) {
  Aliases aliases(t_current_device, /*keep_alive=*/true);
  Tensors out;
  out.reserve(tensors.size());
  for (const auto& t : tensors) out.push_back(aliases.to_cpu(t, false));
  return out;
}

// Return device tensors over the same memory, as a kernel gets pointers: the program may free it or resize the
// storages.
Tensors borrow_tensors(const Tensors& tensors) {
  NonOwningTensors non_owning;
  Tensors out;
  out.reserve(tensors.size());
  for (const auto& t : tensors) out.push_back(non_owning.tensor(t));
  return out;
}

// ---- all_reduce ----------------------------------------------------------------------------------------------------

// Number of groups that coalesce calls into one work, which Python does.
std::atomic<int> g_coalescing{0};
std::unique_ptr<torch::Library> g_quick;
std::optional<c10::OperatorHandle> g_slow;

// Whether NCCL and Gloo both take the call unchanged: there is nothing to refuse, to convert, to observe or to do
// afterwards.
bool is_plain(const at::Tensor& t, const c10d::ReduceOp& op, const c10d::ProcessGroup& group) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::PRODUCT:
    case c10d::ReduceOp::MIN:
    case c10d::ReduceOp::MAX:
      break;
    default:
      return false;
  }
  switch (t.scalar_type()) {
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kBFloat16:
    case at::kInt:
    case at::kLong:
    case at::kChar:
    case at::kByte:
      break;
    default:
      return false;
  }
  const auto bound = group.getBoundDeviceId();
  return !is_observed() && t.layout() == at::kStrided && t.is_contiguous() && t.numel() > 0 &&
      (!bound || *bound == t.device()) && g_coalescing.load(std::memory_order_relaxed) == 0 && !has_captures();
}

// Releases differ in the arguments after the third; the last is the timeout.
void quick_allreduce(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const auto count = op.schema().arguments().size();
  const auto args = torch::jit::last(*stack, count);
  const auto tensors = args[0].toTensorVector();
  const auto group = args[1].toCustomClass<c10d::ProcessGroup>();
  const auto reduction = args[2].toCustomClass<c10d::ReduceOp>();
  if (tensors.size() != 1 || !is_plain(tensors[0], *reduction, *group)) {
    g_slow->callBoxed(stack);
    return;
  }
  const auto backend = group->getBackend(kType);
  auto agreement = agreement_of(backend.get());
  const auto number = static_cast<uint64_t>(static_cast<c10d::ReduceOp::RedOpType>(*reduction));
  if (agreement && !agreement->matches_other_ranks(tensors[0], number)) {
    g_slow->callBoxed(stack);
    return;
  }
  c10d::AllreduceOptions options;
  options.reduceOp = *reduction;
  options.timeout = std::chrono::milliseconds(args[count - 1].toInt());
  const auto index = tensors[0].device().index();
  std::vector<at::Tensor> aliases{Aliases(index, /*keep_alive=*/true).to_cpu(tensors[0], false)};
  auto part = backend->allreduce(aliases, options);
  auto work = make_carried_work({std::move(part)}, tensors, {}, std::move(agreement), /*is_point_to_point=*/false);
  torch::jit::drop(*stack, count);
  torch::jit::push(*stack, tensors, c10::IValue(std::move(work)));
}

// `slow` is an operator with the same arguments, for calls that are not plain; without one, restore torch's own kernel.
void use_quick_allreduce(const std::optional<std::string>& slow) {
  g_quick.reset();
  g_slow.reset();
  if (!slow) return;
  g_slow = c10::Dispatcher::singleton().findSchemaOrThrow(slow->c_str(), "");
  g_quick = std::make_unique<torch::Library>(
      torch::Library::IMPL, "c10d", std::make_optional(c10::DispatchKey::CUDA), __FILE__,
      static_cast<uint32_t>(__LINE__));
  g_quick->impl("allreduce_", torch::CppFunction::makeFromBoxedFunction<&quick_allreduce>());
}

}  // namespace

void bind_collectives(py::module_& m) {
  m.def(
      "carried_work", &carried_work, py::arg("parts"), py::arg("outputs"), py::arg("finish") = py::none(),
      py::arg("group") = 0, py::arg("arrives") = false);
  m.def(
      "defer_collective", &defer_collective, py::arg("device"), py::arg("stream"), py::arg("outputs"),
      py::arg("written"), py::arg("read"), py::arg("begin"), py::arg("has_come"), py::arg("wait"), py::arg("finish"),
      py::arg("blocks_host"));
  m.def("may_run_later", [] { return g_defer.load() != nullptr && !t_in_node && !has_captures(); });
  m.def(
      "observe_collective", &observe_collective, py::arg("work"), py::arg("device"), py::arg("stream"),
      py::arg("written"), py::arg("read"), py::arg("blocks_host"), py::call_guard<py::gil_scoped_release>());
  m.def("alias_tensors", &alias_tensors, py::arg("tensors"), py::call_guard<py::gil_scoped_release>());
  m.def("borrow_tensors", &borrow_tensors, py::arg("tensors"), py::call_guard<py::gil_scoped_release>());
  m.def("is_observed", &is_observed);
  m.def("count_pending_collectives", &count_pending, py::call_guard<py::gil_scoped_release>());
  m.def("use_quick_allreduce", &use_quick_allreduce, py::arg("slow"));
  m.def("time_collectives", &time_works);
  m.def("count_coalescing", [](int change) { g_coalescing += change; });
  bind_agreement(m);
  g_before_synchronizing = &wait_for_pending;
}

}  // namespace hostdevice
