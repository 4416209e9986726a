#include "distributed/waiting.h"

#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "bindings/module.h"
#include "runtime/interpreter.h"

namespace hostdevice {
namespace {

using Clock = std::chrono::steady_clock;

// Time between two checks of the program's signals.
constexpr std::chrono::milliseconds kSlice{100};

// Run the program's signal handlers: Ctrl-C ends a wait for a rank that does not arrive.
void check_signals() {
  if (!Py_IsInitialized()) return;
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

}  // namespace

void wait_in_slices(const WorkPtr& part, std::chrono::milliseconds timeout) {
  const bool is_limited = timeout != kNoTimeout;
  const auto end = Clock::now() + timeout;
  for (;;) {
    auto slice = kSlice;
    if (is_limited)
      slice = std::clamp(
          std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()), std::chrono::milliseconds(1),
          kSlice);
    try {
      part->wait(slice);
      return;
    } catch (const c10::Error&) {
      if (part->isCompleted()) {
        part->wait(kNoTimeout);  // throws its own error, if it has one
        return;
      }
      if (is_limited && Clock::now() >= end) throw;
    }
    check_signals();
  }
}

// Let another thread wait, while this one checks signals.
void wait_for_arrival(const WorkPtr& part, std::chrono::milliseconds timeout) {
  if (!is_main_thread()) {
    part->wait(timeout);
    return;
  }
  struct Arrival {
    std::mutex lock;
    std::condition_variable arrived;
    bool is_done = false, is_abandoned = false;
    std::exception_ptr error;
  };
  const auto arrival = std::make_shared<Arrival>();
  std::thread([arrival, timeout, held = part]() mutable {
    std::exception_ptr error;
    try {
      held->wait(timeout);
    } catch (...) {
      error = std::current_exception();
    }
    {
      const std::lock_guard<std::mutex> lock(arrival->lock);
      // Leak it if the wait was abandoned: releasing it may need the interpreter, which may have ended.
      if (arrival->is_abandoned)
        (void)held.release();
      else
        held.reset();
      arrival->error = error;
      arrival->is_done = true;
    }
    arrival->arrived.notify_all();
  }).detach();
  std::unique_lock<std::mutex> lock(arrival->lock);
  while (!arrival->arrived.wait_for(lock, kSlice, [&] { return arrival->is_done; })) {
    lock.unlock();
    try {
      check_signals();
    } catch (...) {
      lock.lock();
      arrival->is_abandoned = true;
      throw;
    }
    lock.lock();
  }
  if (arrival->error) std::rethrow_exception(arrival->error);
}

}  // namespace hostdevice
