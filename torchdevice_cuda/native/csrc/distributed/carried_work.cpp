#include "distributed/carried_work.h"

#include <ATen/core/ivalue.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>

#include "bindings/module.h"
#include "distributed/observed_work.h"
#include "runtime/captures.h"
#include "runtime/interpreter.h"

namespace hostdevice {
namespace {

using c10::ivalue::Future;
using FuturePtr = c10::intrusive_ptr<Future>;

// Works that were not waited for: torch.cuda.synchronize() waits for them, since on a GPU collectives are in a stream.
// The set keeps a work alive, even if the program drops it, until it is seen to be done.
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

// Whether works measure their duration.
std::atomic<bool> g_timed{false};
using Clock = std::chrono::steady_clock;

// Consists of Gloo's works, the device tensors that they write, and a function to call when all are done. NCCL's work
// is done when the stream reaches it; here the host computes at once, so a wait is for the data.
class CarriedWork final : public c10d::Work {
 public:
  CarriedWork(
      std::vector<WorkPtr> parts, std::vector<at::Tensor> outputs, Finish finish, AgreementPtr agreement,
      bool is_point_to_point)
      : parts_(std::move(parts)),
        outputs_(std::move(outputs)),
        finish_(std::move(finish)),
        agreement_(std::move(agreement)),
        is_point_to_point_(is_point_to_point),
        timed_(g_timed.load()) {
    if (timed_) start_ = Clock::now();
  }

  bool isCompleted() override {
    const bool done = release_if_done();
    if (done && observed_) observed_->note_completion();
    return done;
  }

  void observe(
      StreamState& stream, const std::vector<at::Tensor>& written, const std::vector<at::Tensor>& read,
      bool blocks_host) {
    blocks_host_ = blocks_host;
    observed_ = std::make_unique<ObservedWork>(stream, written, read);
  }

  // Return whether it is done; then it no longer counts as pending.
  bool release_if_done() {
    for (const auto& part : parts_)
      if (!part->isCompleted()) return false;
    if (!exception()) run_finish();
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
    // Functional collectives track works that were not waited for.
    if (c10d::allow_inflight_collective_as_graph_input()) c10d::unregister_work(kept);
    try {
      for (const auto& part : parts_) wait_for(part, timeout);
      run_finish();
    } catch (const py::error_already_set&) {
      throw;  // a signal: the work continues
    } catch (...) {
      forget(kept);
      rethrow();
    }
    forget(kept);
    if (observed_) observed_->block_current_stream();
    if (blocks_host_) observed_->synchronize();
    return true;
  }

  void synchronize() override {
    wait(kNoTimeout);
  }

  // Only some versions of c10d::Work have this method.
  void blockCurrentStream() {
    wait(kNoTimeout);
  }

  // Return the time from the call until completion was observed.
  float getDuration() const override {
    TORCH_CHECK(timed_, "getDuration only works if timing was enabled");
    const auto ended = ended_.load();
    TORCH_CHECK(ended > 0, "getDuration can only be called after work is completed.");
    return static_cast<float>(ended) / 1e6F;
  }

  void abort() override {
    for (const auto& part : parts_) part->abort();
  }

  // A program's callbacks run in the order of its calls, as NCCL's do, whose futures are complete once the work is
  // issued: they may issue collectives of their own. DistributedDataParallel has none in C++, so it need not wait.
  FuturePtr getFuture() override {
    FuturePtr future;
    {
      const std::lock_guard<std::mutex> lock(future_lock_);
      if (future_) return future_;
      future = future_ = make_future(outputs_);
    }
    if (!is_point_to_point_ && Py_IsInitialized() && PyGILState_Check())
      complete_now(future);
    else
      complete_later(future);
    return future;
  }

  // Whether it waits for a call of one other rank instead of all.
  bool is_point_to_point() const {
    return is_point_to_point_;
  }

  // Return a future with 0 if the work succeeded. Only some versions of c10d::Work have this method.
  FuturePtr getFutureResult() {
    constexpr int64_t kDone = 0, kFailed = 2;
    auto status = c10::make_intrusive<Future>(c10::IntType::get());
    getFuture()->addCallback([status](Future& done) { status->markCompleted(done.hasError() ? kFailed : kDone); });
    return status;
  }

 private:
  c10::intrusive_ptr<CarriedWork> self() {
    return c10::intrusive_ptr<CarriedWork>::reclaim_copy(this);
  }

  // Runs once, in the first thread that calls it. It may need the GIL, so no thread waits for it while holding the GIL.
  void run_finish() {
    if (timed_) {
      int64_t unset = 0;
      const auto passed = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count();
      ended_.compare_exchange_strong(unset, std::max<int64_t>(passed, 1));
    }
    if (!finish_) return;
    const WithoutInterpreter without;
    const InNode at_once;  // what it computes is done when this work is
    std::call_once(finished_, finish_);
  }

  void wait_for(const WorkPtr& part, std::chrono::milliseconds timeout) {
    // A work of works checks signals itself.
    if (dynamic_cast<CarriedWork*>(part.get()) != nullptr)
      part->wait(timeout);
    else if (is_point_to_point_)
      wait_for_arrival(part, timeout);
    else
      wait_in_slices(part, timeout);
  }

  // Rethrow an error: the reason why the group failed, if it is known. Otherwise report this error to the other ranks.
  [[noreturn]] void rethrow() {
    if (!agreement_) throw;
    const auto report = [&](const std::string& text) {
      if (const auto known = agreement_->failure()) TORCH_CHECK(false, *known);
      if (is_point_to_point_ || exception())
        agreement_->fail("Rank " + std::to_string(agreement_->rank) + " of the process group failed: " + text);
    };
    try {
      throw;
    } catch (const c10::Error& error) {
      report(error.what_without_backtrace());
      throw;
    } catch (const std::exception& error) {
      report(error.what());
      throw;
    }
  }

  // Complete the future after `wait_for_parts` has returned or thrown.
  void complete(const FuturePtr& future, const std::function<void()>& wait_for_parts) {
    const auto kept = self();
    try {
      wait_for_parts();
      run_finish();
    } catch (...) {
      forget(kept);
      try {
        rethrow();
      } catch (...) {
        future->setError(std::current_exception());
      }
      return;
    }
    forget(kept);
    if (observed_)
      observed_->complete(*future, outputs_);
    else
      future->markCompleted(outputs_);
  }

  // Complete the future before it is returned. A signal ends the wait, not the work.
  void complete_now(const FuturePtr& future) {
    const WithoutInterpreter without;
    std::exception_ptr error;
    try {
      for (const auto& part : parts_) wait_for(part, kNoTimeout);
    } catch (const py::error_already_set&) {
      complete_later(future);
      throw;
    } catch (...) {
      error = std::current_exception();
    }
    complete(future, [&] {
      if (error) std::rethrow_exception(error);
    });
  }

  // Make sure that the future completes. Sends and receives have no futures, so a thread waits for them.
  void complete_later(const FuturePtr& future) {
    FuturePtr last;
    try {
      if (parts_.size() == 1) last = parts_[0]->getFuture();
    } catch (const c10::Error&) {
    }
    if (last) {
      // The callback runs before the part itself counts as done, so it must not wait for the part.
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
  const AgreementPtr agreement_;
  const bool is_point_to_point_;
  const bool timed_;
  std::unique_ptr<const ObservedWork> observed_;
  bool blocks_host_ = false;
  Clock::time_point start_;
  std::atomic<int64_t> ended_{0};
  std::once_flag finished_;
  std::mutex future_lock_;
  FuturePtr future_;
};

}  // namespace

WorkPtr make_carried_work(
    std::vector<WorkPtr> parts, std::vector<at::Tensor> outputs, Finish finish, AgreementPtr agreement,
    bool is_point_to_point) {
  WorkPtr work = c10::make_intrusive<CarriedWork>(
      std::move(parts), std::move(outputs), std::move(finish), std::move(agreement), is_point_to_point);
  std::vector<WorkPtr> others;
  {
    auto& p = pending();
    const std::lock_guard<std::mutex> lock(p.lock);
    others.assign(p.works.begin(), p.works.end());
    p.works.insert(work);
  }
  // Release works that are done and were never waited for, because they hold tensors.
  for (const auto& other : others) static_cast<CarriedWork&>(*other).release_if_done();
  return work;
}

void observe_work(
    const WorkPtr& work, StreamState& stream, const std::vector<at::Tensor>& written,
    const std::vector<at::Tensor>& read, bool blocks_host) {
  auto* carried = dynamic_cast<CarriedWork*>(work.get());
  if (carried) carried->observe(stream, written, read, blocks_host);
}

void time_works(bool on) {
  g_timed = on;
}

bool are_works_timed() {
  return g_timed.load();
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
    } catch (const py::error_already_set&) {
      throw;  // Ctrl-C
    } catch (const std::exception&) {
      // A wait for the work itself reports the error.
    }
  }
}

size_t count_pending() {
  std::vector<WorkPtr> works;
  {
    auto& p = pending();
    const std::lock_guard<std::mutex> lock(p.lock);
    works.assign(p.works.begin(), p.works.end());
  }
  return static_cast<size_t>(std::count_if(works.begin(), works.end(), [](const WorkPtr& work) {
    auto& carried = static_cast<CarriedWork&>(*work);
    return !carried.is_point_to_point() && !carried.release_if_done();
  }));
}

}  // namespace hostdevice
