#include "deferral/schedule.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "runtime/activities.h"
#include "runtime/allocator.h"
#include "runtime/captured_allocations.h"
#include "runtime/captures.h"
#include "runtime/interpreter.h"

namespace hostdevice {
namespace {

// Enough for a step of training; more would only delay the start of the work.
constexpr size_t kMostWaiting = 10'000;
// How often a stream that has run a piece of work gets another priority, where it does at all.
constexpr double kChange = 1.0 / 16;

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kIdle{1000}, kTick{20};

// Run work as a kernel runs: without what the thread that waits for it has set up for its own calls.
void run_on_stream(const StreamState& stream, const DeferredWork& work) {
  const c10::impl::ForceDispatchKeyGuard keys(
      c10::default_included_set,
      c10::default_excluded_set | c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
          c10::python_ks);
  const AllocateOnDevice host(-1);
  const auto restore = c10::make_scope_exit(
      [device = std::exchange(t_current_device, stream.device), captured = std::exchange(t_captured, {}),
       current = exchange_stream(stream.device, stream.id), index = stream.device] {
        exchange_stream(index, current);
        t_captured = captured;
        t_current_device = device;
        t_in_deferred_work = false;
        g_threads_in_deferred_work.fetch_sub(1);
      });
  t_in_deferred_work = true;
  g_threads_in_deferred_work.fetch_add(1);
  DeviceWork launch;
  if (is_profiled() && !work.name.empty()) launch.begin(work.name, stream.device, work.site);
  const InNode whole;
  work.run();
}

}  // namespace

Schedule& schedule() {
  static auto* one = new Schedule;
  return *one;
}

Schedule::Lock Schedule::lock() {
  Lock held(mutex_, std::try_to_lock);
  if (!held.owns_lock()) {
    const WithoutInterpreter released;
    held.lock();
  }
  return held;
}

void Schedule::start(uint64_t seed) {
  Lock held = lock();
  for (const auto& [id, queue] : queues_) {
    run_queue(held, *queue);
    queue->priority.reset();
  }
  seed_ = seed;
  random_.seed(seed);
  // Half of the seeds defer all work, and half change the order now and then.
  const bool defers_all = seed % 4 < 2;
  host_priority_ = defers_all ? 2 : draw();
  change_ = defers_all ? 0 : kChange;
  is_on_.store(true);
}

void Schedule::stop() {
  run_all(-1);
  is_on_.store(false);
}

double Schedule::draw() {
  return static_cast<double>(random_() >> 11) * 0x1p-53;
}

// With the first two of four seeds, default streams run before or after all others.
double Schedule::draw_priority(const StreamState& stream) {
  if (stream.id == 0 && seed_ % 4 == 0) return 1;
  if (stream.id == 0 && seed_ % 4 == 1) return -1;
  return draw();
}

Schedule::Queue& Schedule::queue_of(const StreamState& stream) {
  auto& found = queues_[{stream.device, stream.id}];
  if (!found) {
    found = std::make_unique<Queue>();
    found->stream = const_cast<StreamState*>(&stream);
  }
  if (!found->priority) found->priority = draw_priority(stream);
  return *found;
}

void Schedule::issue(StreamState& stream, DeferredWork work) {
  if (is_profiled()) {
    work.site = find_site();
    note_forward(work.site);
  }
  Lock held = lock();
  Queue& queue = queue_of(stream);
  if (work.arrival.wait) {
    to_arrive_++;
    if (!std::exchange(has_thread_, true)) std::thread([this] { run_idle_work(); }).detach();
  }
  queue.entries.push_back({std::move(work), std::exchange(queue.awaited, {})});
  stream.has_deferred_work.store(true, std::memory_order_release);
  waiting_++;
  last_ = Clock::now();
  if (queue.priority > host_priority_)
    run_queue(held, queue, Arrivals::Left);
  else if (waiting_ > kMostWaiting && !is_running_)
    run_next(held);
}

void Schedule::run_before_next(const StreamState& stream) {
  Lock held = lock();
  Queue& queue = queue_of(stream);
  run_queue(held, queue);
  for (const auto& position : std::exchange(queue.awaited, {})) run_until(held, position);
}

void Schedule::run_all(c10::DeviceIndex device) {
  Lock held = lock();
  for (const auto& [id, queue] : queues_)
    if (device < 0 || id.first == device) run_queue(held, *queue);
}

void Schedule::record_event(const EventState& event, const StreamState& stream) {
  const Lock held = lock();
  Queue& queue = queue_of(stream);
  // The event also comes after what the stream waits for, so that is a piece of work of its own.
  if (!queue.awaited.empty()) {
    queue.entries.push_back({{}, std::exchange(queue.awaited, {})});
    queue.stream->has_deferred_work.store(true, std::memory_order_release);
    waiting_++;
  }
  events_[&event] = queue.end();
}

void Schedule::wait_for_event(const StreamState& stream, const EventState& event) {
  const Lock held = lock();
  const auto found = events_.find(&event);
  if (found == events_.end() || is_done(found->second)) return;
  queue_of(stream).awaited.push_back(found->second);
}

void Schedule::forget_event(const EventState& event) {
  const Lock held = lock();
  events_.erase(&event);
}

void Schedule::run_before(const EventState& event) {
  Lock held = lock();
  const auto found = events_.find(&event);
  if (found != events_.end()) run_until(held, found->second);
}

void Schedule::raise_error() {
  std::exception_ptr error;
  {
    const Lock held = lock();
    std::swap(error, error_);
  }
  if (error) std::rethrow_exception(error);
}

bool Schedule::is_ready(const Queue& queue) {
  const auto& after = queue.entries.front().after;
  return std::all_of(after.begin(), after.end(), [](const Position& p) { return is_done(p); });
}

bool Schedule::needs_arrival(const Queue& queue) {
  return queue.entries.front().work.arrival.wait && !queue.entries.front().has_arrived;
}

// Work waits only for what was issued before it, so this ends.
Schedule::Queue& Schedule::find_awaited(Position position) {
  for (;;) {
    const auto& after = position.queue->entries.front().after;
    const auto next = std::find_if(after.begin(), after.end(), [](const Position& p) { return !is_done(p); });
    if (next == after.end()) return const_cast<Queue&>(*position.queue);
    position = *next;
  }
}

void Schedule::run_until(Lock& held, Position position, Arrivals arrivals) {
  if (is_done(position)) return;
  const WithoutInterpreter released;
  while (!is_done(position)) {
    if (is_running_) {
      ended_.wait(held);
    } else if (run_next(held)) {
      last_ = Clock::now();
    } else if (arrivals == Arrivals::Awaited) {
      wait_for_arrival(held, find_awaited(position));
    } else {
      return;
    }
  }
}

void Schedule::run_queue(Lock& held, Queue& queue, Arrivals arrivals) {
  run_until(held, queue.end(), arrivals);
}

// Run the next work of the stream with the highest priority among those that need not wait.
bool Schedule::run_next(Lock& held) {
  Queue* next = nullptr;
  for (auto& [id, queue] : queues_)
    if (!queue->entries.empty() && is_ready(*queue) && !needs_arrival(*queue) &&
        (!next || queue->priority > next->priority))
      next = queue.get();
  if (!next) return false;
  run_first_of(held, *next);
  if (change_ > 0 && draw() < change_) next->priority = draw();
  return true;
}

// Other threads may run work meanwhile. Ctrl-C throws; an error of the arrival is thrown again by the work itself.
void Schedule::wait_for_arrival(Lock& held, Queue& queue) {
  const auto wait = queue.entries.front().work.arrival.wait;
  const auto number = queue.begun;
  held.unlock();
  try {
    wait();
  } catch (...) {
    held.lock();
    throw;
  }
  held.lock();
  if (queue.begun == number) queue.entries.front().has_arrived = true;
}

// Note what has arrived since; return whether anything has.
bool Schedule::note_arrivals(Lock& held) {
  bool any = false;
  for (const auto& [id, one] : queues_) {
    Queue& queue = *one;
    if (queue.entries.empty() || !is_ready(queue) || !needs_arrival(queue)) continue;
    const auto has_come = queue.entries.front().work.arrival.has_come;
    const auto number = queue.begun;
    held.unlock();
    const bool is_here = has_come();
    held.lock();
    if (!is_here || queue.begun != number) continue;
    queue.entries.front().has_arrived = any = true;
  }
  return any;
}

void Schedule::run_idle_work() {
  for (;;) {
    std::this_thread::sleep_for(kTick);
    Lock held = lock();
    if (to_arrive_ == 0 || is_running_ || Clock::now() - last_ < kIdle) continue;
    // Work may call Python.
    if (!Py_IsInitialized()) return;
    do {
      while (!is_running_ && run_next(held)) {
      }
    } while (note_arrivals(held));
  }
}

void Schedule::run_first_of(Lock& held, Queue& queue) {
  {
    std::exception_ptr error;
    const Entry entry = std::move(queue.entries.front());
    queue.entries.pop_front();
    queue.begun++;
    waiting_--;
    if (entry.work.arrival.wait) to_arrive_--;
    is_running_ = true;
    held.unlock();
    try {
      if (entry.work.run) run_on_stream(*queue.stream, entry.work);
    } catch (const std::exception&) {
      error = std::current_exception();
    }
    held.lock();
    if (!error_) error_ = std::exchange(error, nullptr);
    is_running_ = false;
    queue.done++;
    if (queue.entries.empty()) queue.stream->has_deferred_work.store(false, std::memory_order_release);
    ended_.notify_all();
    held.unlock();
  }
  held.lock();
}

}  // namespace hostdevice
