// Work of a process group that is done on CPU aliases of device tensors, as the program sees it; and the collective
// that is called most, without Python.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "bindings/agreement.h"
#include "bindings/module.h"
#include "operators/alias.h"
#include "runtime/captures.h"
#include "runtime/interpreter.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

using c10::ivalue::Future;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using FuturePtr = c10::intrusive_ptr<Future>;
using Finish = std::function<void()>;

// What nobody has waited for yet: torch.cuda.synchronize() does, since on a GPU collectives are in a stream. It holds
// the work, which a program may drop, and lets go of it as soon as it is seen to be done.
struct Pending {
  std::mutex lock;
  std::unordered_set<WorkPtr> works;
};

Pending& pending() {
  static auto* p = new Pending;
  return *p;
}

void forget(const WorkPtr& work) {
  auto& p = pending();
  const std::lock_guard<std::mutex> lock(p.lock);
  p.works.erase(work);
}

// Whether works say how long they took.
std::atomic<bool> g_timed{false};
using Clock = std::chrono::steady_clock;

// The parts, what they wrote as device tensors, and what is left to do when all are there. NCCL's work is done when the
// stream gets there; the host computes at once, so waiting is for the data.
class CarriedWork final : public c10d::Work {
 public:
  CarriedWork(std::vector<WorkPtr> parts, std::vector<at::Tensor> outputs, Finish finish)
      : parts_(std::move(parts)), outputs_(std::move(outputs)), finish_(std::move(finish)), timed_(g_timed.load()) {
    if (timed_) begun_ = Clock::now();
  }

  bool isCompleted() override {
    for (const auto& part : parts_)
      if (!part->isCompleted()) return false;
    if (!exception()) settle();
    forget(self());
    return true;
  }

  bool isSuccess() const override {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "WorkNCCL::isSuccess() is deprecated");
  }

  std::exception_ptr exception() const override {
    for (const auto& part : parts_)
      if (auto error = part->exception()) return error;
    return nullptr;
  }

  std::vector<at::Tensor> result() override {
    return outputs_;
  }

  bool wait(std::chrono::milliseconds timeout) override {
    const auto kept = self();
    // Functional collectives look for works that nobody has waited for.
    if (c10d::allow_inflight_collective_as_graph_input()) c10d::unregister_work(kept);
    try {
      for (const auto& part : parts_) part->wait(timeout);
      settle();
    } catch (...) {
      forget(kept);
      throw;
    }
    forget(kept);
    return true;
  }

  void synchronize() override {
    wait(kNoTimeout);
  }

  // Not in every version of the interface.
  void blockCurrentStream() {
    wait(kNoTimeout);
  }

  // From the call to the moment when somebody saw that it was done.
  float getDuration() const override {
    TORCH_CHECK(timed_, "getDuration only works if timing was enabled");
    const auto ended = ended_.load();
    TORCH_CHECK(ended > 0, "getDuration can only be called after work is completed.");
    return static_cast<float>(ended) / 1e6F;
  }

  void abort() override {
    for (const auto& part : parts_) part->abort();
  }

  FuturePtr getFuture() override {
    const std::lock_guard<std::mutex> lock(future_lock_);
    if (!future_) {
      std::vector<c10::Device> devices;
      for (const auto& t : outputs_)
        if (!t.device().is_cpu() && std::find(devices.begin(), devices.end(), t.device()) == devices.end())
          devices.push_back(t.device());
      future_ = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()), devices);
      promise(future_);
    }
    return future_;
  }

  // Whether it came to an end, as a number: 0 if it did. Not in every version of the interface.
  FuturePtr getFutureResult() {
    constexpr int64_t kDone = 0, kFailed = 2;
    auto told = c10::make_intrusive<Future>(c10::IntType::get());
    getFuture()->addCallback([told](Future& done) { told->markCompleted(done.hasError() ? kFailed : kDone); });
    return told;
  }

 private:
  c10::intrusive_ptr<CarriedWork> self() {
    return c10::intrusive_ptr<CarriedWork>::reclaim_copy(this);
  }

  // Once, by whoever comes first. It may ask for the interpreter, so nobody waits for it with that in hand.
  void settle() {
    if (timed_) {
      int64_t unset = 0;
      const auto passed = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begun_).count();
      ended_.compare_exchange_strong(unset, std::max<int64_t>(passed, 1));
    }
    if (!finish_) return;
    const WithoutInterpreter without;
    std::call_once(settled_, finish_);
  }

  // After `come` has returned or thrown.
  void complete(const FuturePtr& future, const std::function<void()>& come) {
    const auto kept = self();
    try {
      come();
      settle();
    } catch (...) {
      forget(kept);
      future->setError(std::current_exception());
      return;
    }
    forget(kept);
    future->markCompleted(outputs_);
  }

  // Have the future completed. Work that was sent or received knows no futures: a thread waits for it.
  void promise(const FuturePtr& future) {
    FuturePtr last;
    try {
      if (parts_.size() == 1) last = parts_[0]->getFuture();
    } catch (const c10::Error&) {
    }
    if (last) {
      // It is called before the part itself counts as done: that is not to be waited for.
      last->addCallback([kept = self(), future](Future& done) {
        kept->complete(future, [&] {
          if (done.hasError()) std::rethrow_exception(done.exception_ptr());
        });
      });
    } else {
      std::thread([kept = self(), future] {
        kept->complete(future, [&] {
          for (const auto& part : kept->parts_) part->wait(kNoTimeout);
        });
      }).detach();
    }
  }

  const std::vector<WorkPtr> parts_;
  const std::vector<at::Tensor> outputs_;
  const Finish finish_;
  const bool timed_;
  Clock::time_point begun_;
  std::atomic<int64_t> ended_{0};
  std::once_flag settled_;
  std::mutex future_lock_;
  FuturePtr future_;
};

Finish finishing(const py::object& finish) {
  if (finish.is_none()) return {};
  const auto held = hold(finish);
  return [held] {
    const py::gil_scoped_acquire gil;
    (*held)();
  };
}

WorkPtr carried(std::vector<WorkPtr> parts, std::vector<at::Tensor> outputs, Finish finish) {
  WorkPtr work = c10::make_intrusive<CarriedWork>(std::move(parts), std::move(outputs), std::move(finish));
  std::vector<WorkPtr> others;
  {
    auto& p = pending();
    const std::lock_guard<std::mutex> lock(p.lock);
    others.assign(p.works.begin(), p.works.end());
    p.works.insert(work);
  }
  // Those that are done, and were never waited for, go: they hold tensors.
  for (const auto& other : others) other->isCompleted();
  return work;
}

WorkPtr carried_work(std::vector<WorkPtr> parts, std::vector<at::Tensor> outputs, const py::object& finish) {
  auto finishing_it = finishing(finish);
  const py::gil_scoped_release nogil;
  return carried(std::move(parts), std::move(outputs), std::move(finishing_it));
}

// ---- all_reduce ----------------------------------------------------------------------------------------------------

// How many groups collect calls to make one work of them, which Python does.
std::atomic<int> g_coalescing{0};
std::unique_ptr<torch::Library> g_quick;
std::optional<c10::OperatorHandle> g_slow;

// What NCCL and Gloo both take as it is; there is nothing to refuse, to convert or to do afterwards.
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
  return t.layout() == at::kStrided && t.is_contiguous() && t.numel() > 0 && (!bound || *bound == t.device()) &&
      g_coalescing.load(std::memory_order_relaxed) == 0 && !captures_underway();
}

// Releases differ in the arguments after the third, of which the last is the timeout.
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
  if (const auto agreement = agreement_of(backend.get()); agreement && !agreement->same(tensors[0])) {
    g_slow->callBoxed(stack);
    return;
  }
  c10d::AllreduceOptions options;
  options.reduceOp = *reduction;
  options.timeout = std::chrono::milliseconds(args[count - 1].toInt());
  std::vector<at::Tensor> aliases{Aliases(tensors[0].device().index(), /*keep_alive=*/true).to_cpu(tensors[0], false)};
  auto part = backend->allreduce(aliases, options);
  auto work = carried({std::move(part)}, tensors, {});
  torch::jit::drop(*stack, count);
  torch::jit::push(*stack, tensors, c10::IValue(std::move(work)));
}

// `slow` is an operator with the same arguments, for calls that are not plain; without one, torch's own kernel is back.
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

void wait_for_pending() {
  const WithoutInterpreter without;
  std::vector<WorkPtr> works;
  {
    auto& p = pending();
    const std::lock_guard<std::mutex> lock(p.lock);
    works.assign(p.works.begin(), p.works.end());
  }
  for (const auto& work : works) {
    try {
      work->wait(kNoTimeout);
    } catch (const std::exception&) {
      // It is told to whoever waits for the work itself.
    }
  }
}

}  // namespace

void bind_collectives(py::module_& m) {
  m.def("carried_work", &carried_work, py::arg("parts"), py::arg("outputs"), py::arg("finish") = py::none());
  m.def("use_quick_allreduce", &use_quick_allreduce, py::arg("slow"));
  m.def("time_collectives", [](bool on) { g_timed = on; });
  m.def("count_coalescing", [](int change) { g_coalescing += change; });
  bind_agreement(m);
  g_before_synchronizing = &wait_for_pending;
}

}  // namespace hostdevice
