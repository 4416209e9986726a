#include "distributed/deferred_work.h"

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include "distributed/carried_work.h"
#include "distributed/observed_work.h"
#include "runtime/interpreter.h"
#include "runtime/observer.h"

namespace hostdevice {
namespace {

using c10::ivalue::Future;
using FuturePtr = c10::intrusive_ptr<Future>;
using Clock = std::chrono::steady_clock;

// When the steps of a work have run. The steps outlive a work that the program drops.
struct Progress {
  std::atomic<bool> is_done{false};
  std::atomic<int64_t> duration_ns{0};
};

// Waits order streams, as those for NCCL's work do.
class DeferredCollective final : public c10d::Work {
 public:
  DeferredCollective(
      StreamState& stream, std::vector<at::Tensor> outputs, const std::vector<at::Tensor>& written,
      const std::vector<at::Tensor>& read, DeferredSteps steps, bool blocks_host)
      : stream_(stream),
        outputs_(std::move(outputs)),
        blocks_host_(blocks_host),
        is_timed_(are_works_timed()),
        has_come_(steps.arrival.has_come),
        observed_(stream, written, read, [&] { issue(std::move(steps)); }) {}

  ~DeferredCollective() override {
    observe([&](StreamObserver& o) { o.destroy_event(begun_); });
  }

  bool isCompleted() override {
    if (progress_->is_done) return true;
    const WithoutInterpreter without;
    observe([&](StreamObserver& o) { o.synchronize(begun_); });
    if (has_come_()) observed_.synchronize();
    if (progress_->is_done) observed_.note_completion();
    return progress_->is_done;
  }

  bool isSuccess() const override {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "WorkNCCL::isSuccess() is deprecated");
  }

  std::exception_ptr exception() const override {
    return nullptr;  // the next wait of the host throws it
  }

  std::vector<at::Tensor> result() override {
    return outputs_;
  }

  bool wait(std::chrono::milliseconds) override {
    // Functional collectives track works that were not waited for.
    if (c10d::allow_inflight_collective_as_graph_input())
      c10d::unregister_work(c10::intrusive_ptr<c10d::Work>::reclaim_copy(this));
    observed_.block_current_stream();
    if (blocks_host_) observed_.synchronize();
    return true;
  }

  void synchronize() override {
    wait(kNoTimeout);
  }

  // Only some versions of c10d::Work have this method.
  void blockCurrentStream() {
    wait(kNoTimeout);
  }

  float getDuration() const override {
    TORCH_CHECK(is_timed_, "getDuration only works if timing was enabled");
    TORCH_CHECK(progress_->is_done, "getDuration can only be called after work is completed.");
    return static_cast<float>(progress_->duration_ns.load()) / 1e6F;
  }

  void abort() override {}

  // As NCCL's, the future is complete, and waits for it make streams wait.
  FuturePtr getFuture() override {
    const std::lock_guard<std::mutex> lock(future_lock_);
    if (!future_) {
      future_ = make_future(outputs_);
      observed_.complete(*future_, outputs_);
    }
    return future_;
  }

  // Only some versions of c10d::Work have this method.
  FuturePtr getFutureResult() {
    auto status = c10::make_intrusive<Future>(c10::IntType::get());
    status->markCompleted(int64_t{0});
    return status;
  }

 private:
  void issue(DeferredSteps steps) {
    const auto defer = g_defer.load();
    const auto start = Clock::now();
    defer(stream_, "a collective", std::move(steps.begin), {});
    begun_.device = stream_.device;
    observe([&](StreamObserver& o) { o.record_event(begun_, stream_); });
    defer(
        stream_, "a collective",
        [progress = progress_, start, finish = std::move(steps.finish)] {
          finish();
          const auto passed = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
          progress->duration_ns = std::max<int64_t>(passed, 1);
          progress->is_done = true;
        },
        std::move(steps.arrival));
  }

  StreamState& stream_;
  const std::vector<at::Tensor> outputs_;
  const bool blocks_host_, is_timed_;
  const std::function<bool()> has_come_;
  const std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
  EventState begun_;
  const ObservedWork observed_;
  std::mutex future_lock_;
  FuturePtr future_;
};

}  // namespace

WorkPtr issue_collective(
    StreamState& stream, std::vector<at::Tensor> outputs, const std::vector<at::Tensor>& written,
    const std::vector<at::Tensor>& read, DeferredSteps steps, bool blocks_host) {
  return c10::make_intrusive<DeferredCollective>(
      stream, std::move(outputs), written, read, std::move(steps), blocks_host);
}

}  // namespace hostdevice
