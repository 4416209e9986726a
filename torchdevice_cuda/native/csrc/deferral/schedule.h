// Work that has been issued to streams but not run, and the order in which it runs: any that CUDA allows, chosen by a
// seed.
//
// Work of one stream runs in the order of issue, after the events that it waits for. It runs when the host waits for
// it. Otherwise the order follows priorities, as in probabilistic concurrency testing: each stream has a random
// priority, which sometimes changes, and so has the host. Work of a stream above the host runs when it is issued.
//
// One thread runs work at a time, without the lock: work may call Python, and so may the end of its arguments.
//
// Work may need what another process sends. The host waits for that only if what it waits for comes after such work,
// when there is no other work left: the other process may need results of that. If nothing happens for a second, the
// host may be waiting for the other process in another way, so a thread runs what can run.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "operators/recorded.h"
#include "runtime/ledger.h"
#include "runtime/streams.h"

namespace hostdevice {

// A piece of work. Called below autograd, with the stream and its device as the thread's current ones.
struct DeferredWork {
  std::string name;
  std::function<void()> run;
  Arrival arrival;
  Site site = kNoSite;  // the line that issued it, for a report
};

class Schedule {
 public:
  // Begin with a seed, which decides everything that happens later. What was issued before runs first.
  void start(uint64_t seed);
  void stop();
  bool is_on() const {
    return is_on_.load(std::memory_order_relaxed);
  }

  // Issue work to a stream.
  void issue(StreamState& stream, DeferredWork work);
  // Run what the stream's next work comes after.
  void run_before_next(const StreamState& stream);
  // Run all work of a device, or of all devices (-1).
  void run_all(c10::DeviceIndex device);

  void record_event(const EventState& event, const StreamState& stream);
  void wait_for_event(const StreamState& stream, const EventState& event);
  void forget_event(const EventState& event);
  // Run what the event was recorded after.
  void run_before(const EventState& event);

  // Raise the first error of work that has run, as CUDA reports errors of kernels later.
  void raise_error();

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Queue;
  // The end of a queue's first `count` pieces of work.
  struct Position {
    const Queue* queue = nullptr;
    uint64_t count = 0;
  };
  struct Entry {
    DeferredWork work;
    std::vector<Position> after;
    bool has_arrived = false;
  };
  struct Queue {
    StreamState* stream;
    std::optional<double> priority;  // none until the stream is first used with the seed
    uint64_t begun = 0, done = 0;    // pieces of work
    std::deque<Entry> entries;
    std::vector<Position> awaited;  // events that the next work waits for
    Position end() const {
      return {this, begun + entries.size()};
    }
  };

  // Lock without holding the GIL: work may need it.
  Lock lock();
  // The lock must be held for all of these.
  Queue& queue_of(const StreamState& stream);
  static bool is_done(const Position& position) {
    return !position.queue || position.queue->done >= position.count;
  }
  static bool is_ready(const Queue& queue);
  static bool needs_arrival(const Queue& queue);
  // Return the queue whose first work has to arrive before the position is reached.
  static Queue& find_awaited(Position position);
  // These release it while work runs.
  enum class Arrivals { Awaited, Left };
  void run_until(Lock& held, Position position, Arrivals arrivals = Arrivals::Awaited);
  void run_queue(Lock& held, Queue& queue, Arrivals arrivals = Arrivals::Awaited);
  // Return false if all work waits for arrivals.
  bool run_next(Lock& held);
  void run_first_of(Lock& held, Queue& queue);
  void wait_for_arrival(Lock& held, Queue& queue);
  bool note_arrivals(Lock& held);
  void run_idle_work();
  double draw_priority(const StreamState& stream);
  double draw();

  std::mutex mutex_;
  std::condition_variable ended_;  // a piece of work has
  bool is_running_ = false;        // a piece of work, on any thread
  std::atomic<bool> is_on_{false};
  // Queues remain: other threads may wait for their work.
  std::map<std::pair<c10::DeviceIndex, c10::StreamId>, std::unique_ptr<Queue>> queues_;
  std::unordered_map<const EventState*, Position> events_;
  size_t waiting_ = 0;  // pieces of work in all queues
  size_t to_arrive_ = 0;
  bool has_thread_ = false;
  std::chrono::steady_clock::time_point last_;  // when work was last issued, or has last run
  uint64_t seed_ = 0;
  std::mt19937_64 random_;
  double host_priority_ = 0, change_ = 0;
  std::exception_ptr error_;
};

// Leaked: threads may use it while the process ends.
Schedule& schedule();

}  // namespace hostdevice
