// cuda::barrier of libcu++, for the threads of one block: blocks run one after the other and cannot wait for each
// other.
#pragma once

#include <chrono>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "cooperative_groups.h"
#include "host_cuda/libcxx.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

struct NoCompletion {
  void operator()() const {}
};

// Counts arrivals in phases. It is in shared memory, where its own accesses are no races.
class PhaseCounter {
 public:
  PhaseCounter() = default;
  HOST_CUDA_UNWATCHED explicit PhaseCounter(std::ptrdiff_t expected) : expected_(expected), missing_(expected) {}
  HOST_CUDA_UNWATCHED unsigned long long phase() const {
    return phase_;
  }
  // Take arrivals; return whether they complete the phase, which `advance` ends.
  HOST_CUDA_UNWATCHED bool arrive(std::ptrdiff_t n, const char* what, Where where) {
    if (n < 0 || n > missing_)
      worker->fail(
          cudaErrorLaunchFailure, where, "%s: %td arrivals where %td of %td are missing", what, n, missing_, expected_);
    missing_ -= n;
    return missing_ == 0;
  }
  HOST_CUDA_UNWATCHED void advance() {
    ++phase_;
    missing_ = expected_;
    worker->wake(this);
  }
  HOST_CUDA_UNWATCHED void drop() {
    --expected_;
  }
  // Return when the phase is over.
  HOST_CUDA_UNWATCHED void wait(unsigned long long phase, const char* what, Where where) const {
    while (phase_ <= phase) worker->park(this, what, where);
  }

 private:
  std::ptrdiff_t expected_ = 0, missing_ = 0;
  unsigned long long phase_ = 0;
};

}  // namespace host_cuda
#pragma GCC visibility pop

namespace cuda {

template <thread_scope Scope = thread_scope_system, class Completion = host_cuda::NoCompletion>
class barrier {
 public:
  class arrival_token {
    friend class barrier;
    explicit arrival_token(unsigned long long phase) : phase_(phase) {}
    unsigned long long phase_;
  };
  barrier() = default;
  explicit barrier(std::ptrdiff_t expected, Completion completion = Completion())
      : count_(expected), completion_(std::move(completion)) {}
  barrier(const barrier&) = delete;
  barrier& operator=(const barrier&) = delete;
  friend void init(barrier* object, std::ptrdiff_t expected, Completion completion = Completion()) {
    new (object) barrier(expected, std::move(completion));
  }
  static constexpr std::ptrdiff_t(max)() {
    return (1 << 20) - 1;
  }
  [[nodiscard]] arrival_token arrive(std::ptrdiff_t n = 1, HOST_CUDA_HERE) {
    const arrival_token token(count_.phase());
    if (count_.arrive(n, "cuda::barrier", {file, line})) {
      completion_();
      count_.advance();
    }
    return token;
  }
  void wait(arrival_token&& token, HOST_CUDA_HERE) const {
    count_.wait(token.phase_, kWait, {file, line});
  }
  void arrive_and_wait(HOST_CUDA_HERE) {
    wait(arrive(1, file, line), file, line);
  }
  void arrive_and_drop(HOST_CUDA_HERE) {
    count_.drop();
    (void)arrive(1, file, line);
  }
  // Wait until the current phase is over if its parity is the given one: the phase before it is over.
  void wait_parity(bool parity, HOST_CUDA_HERE) const {
    if ((count_.phase() & 1) == parity) count_.wait(count_.phase(), kWait, {file, line});
  }
  // Programs repeat these until they are true; a thread that gives way comes back when they are.
  bool try_wait(arrival_token&& token, HOST_CUDA_HERE) const {
    wait(std::move(token), file, line);
    return true;
  }
  bool try_wait_parity(bool parity, HOST_CUDA_HERE) const {
    wait_parity(parity, file, line);
    return true;
  }

 private:
  static constexpr const char* kWait = "cuda::barrier::wait()";
  host_cuda::PhaseCounter count_;
  Completion completion_;
};

// Copies are complete when the call returns.
template <class To, class From, class Size, thread_scope Scope, class Completion>
void memcpy_async(To* to, const From* from, const Size& size, barrier<Scope, Completion>&) {
  std::memcpy(static_cast<void*>(to), from, static_cast<size_t>(size));
}
template <class Group, class To, class From, class Size, thread_scope Scope, class Completion>
void memcpy_async(const Group& group, To* to, const From* from, const Size& size, barrier<Scope, Completion>&) {
  cooperative_groups::memcpy_async(group, to, from, size);
}

}  // namespace cuda
