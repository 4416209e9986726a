// cuda::pipeline of libcu++. Copies are complete when the call that starts them returns, so that a thread never waits
// for its own; threads that share a pipeline wait for each other.
#pragma once

#include "host_cuda/barrier.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

struct PipelineStage {
  PhaseCounter filled, emptied;
};

}  // namespace host_cuda
#pragma GCC visibility pop

namespace cuda {

enum class pipeline_role { producer, consumer };

template <thread_scope Scope, unsigned char Stages>
struct pipeline_shared_state {
  pipeline_shared_state() = default;
  pipeline_shared_state(const pipeline_shared_state&) = delete;
  pipeline_shared_state& operator=(const pipeline_shared_state&) = delete;

  host_cuda::PipelineStage host_stages[Stages];
  std::ptrdiff_t host_producers, host_consumers;
};

template <thread_scope Scope>
class pipeline {
 public:
  pipeline(host_cuda::PipelineStage* stages, unsigned count) : stages_(stages), count_(count) {}
  pipeline(pipeline&&) = default;
  pipeline& operator=(pipeline&&) = delete;
  // Wait until the consumers have released the stage that comes next.
  void producer_acquire(HOST_CUDA_HERE) {
    if (produced_ < count_) return;
    const auto& stage = stages_[produced_ % count_];
    stage.emptied.wait(produced_ / count_ - 1, "cuda::pipeline::producer_acquire()", {file, line});
  }
  void producer_commit(HOST_CUDA_HERE) {
    auto& filled = stages_[produced_++ % count_].filled;
    if (filled.arrive(1, "cuda::pipeline::producer_commit()", {file, line})) filled.advance();
  }
  // Wait until every producer has committed the stage that comes next.
  void consumer_wait(HOST_CUDA_HERE) {
    const auto& stage = stages_[consumed_ % count_];
    stage.filled.wait(consumed_ / count_, "cuda::pipeline::consumer_wait()", {file, line});
  }
  void consumer_release(HOST_CUDA_HERE) {
    auto& emptied = stages_[consumed_++ % count_].emptied;
    if (emptied.arrive(1, "cuda::pipeline::consumer_release()", {file, line})) emptied.advance();
  }

 private:
  host_cuda::PipelineStage* stages_;
  unsigned long long count_, produced_ = 0, consumed_ = 0;
};

template <>
class pipeline<thread_scope_thread> {
 public:
  pipeline() = default;
  pipeline(pipeline&&) = default;
  pipeline& operator=(pipeline&&) = delete;
  void producer_acquire() {}
  void producer_commit() {}
  void consumer_wait() {}
  void consumer_release() {}
};

}  // namespace cuda

#pragma GCC visibility push(hidden)
namespace host_cuda {

// Every thread of the group calls this with its role.
template <class Group, cuda::thread_scope Scope, unsigned char Stages>
cuda::pipeline<Scope> share_pipeline(
    const Group& group, cuda::pipeline_shared_state<Scope, Stages>* state, bool produces, bool consumes,
    HOST_CUDA_HERE) {
  if (group.thread_rank() == 0) state->host_producers = state->host_consumers = 0;
  group.sync(file, line);
  state->host_producers += produces;  // the threads of a block run one at a time
  state->host_consumers += consumes;
  group.sync(file, line);
  if (group.thread_rank() == 0)
    for (auto& stage : state->host_stages) {
      new (&stage.filled) PhaseCounter(state->host_producers);
      new (&stage.emptied) PhaseCounter(state->host_consumers);
    }
  group.sync(file, line);
  return {state->host_stages, Stages};
}

}  // namespace host_cuda
#pragma GCC visibility pop

namespace cuda {

inline pipeline<thread_scope_thread> make_pipeline() {
  return {};
}
template <class Group, thread_scope Scope, unsigned char Stages>
pipeline<Scope> make_pipeline(
    const Group& group, pipeline_shared_state<Scope, Stages>* state, pipeline_role role, HOST_CUDA_HERE) {
  const bool produces = role == pipeline_role::producer;
  return host_cuda::share_pipeline(group, state, produces, !produces, file, line);
}
// The first threads of the group are the producers.
template <class Group, thread_scope Scope, unsigned char Stages>
pipeline<Scope> make_pipeline(
    const Group& group, pipeline_shared_state<Scope, Stages>* state, size_t producers, HOST_CUDA_HERE) {
  const bool produces = group.thread_rank() < producers;
  return host_cuda::share_pipeline(group, state, produces, !produces, file, line);
}
template <class Group, thread_scope Scope, unsigned char Stages>
pipeline<Scope> make_pipeline(const Group& group, pipeline_shared_state<Scope, Stages>* state, HOST_CUDA_HERE) {
  return host_cuda::share_pipeline(group, state, true, true, file, line);
}

template <unsigned char Prior>
void pipeline_consumer_wait_prior(pipeline<thread_scope_thread>&) {}

template <class To, class From, class Size, thread_scope Scope>
void memcpy_async(To* to, const From* from, const Size& size, pipeline<Scope>&) {
  std::memcpy(static_cast<void*>(to), from, static_cast<size_t>(size));
}
template <class Group, class To, class From, class Size, thread_scope Scope>
void memcpy_async(const Group& group, To* to, const From* from, const Size& size, pipeline<Scope>&) {
  cooperative_groups::memcpy_async(group, to, from, size);
}

}  // namespace cuda
