#include "runtime/mps_events.h"

#include <c10/util/Exception.h>

#include <cerrno>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <stack>
#include <unordered_map>
#include <utility>

#include "runtime/streams.h"

namespace hostdevice {
namespace {

constexpr char kLatency[] = "TORCHDEVICE_EMULATE_MPS_LATENCY_US";
constexpr int64_t kLatencyUs = 150;

// Return the latency from committing work to its signal. Notifying the listener thread takes the same time again.
int64_t latency_ns() {
  static const int64_t ns = [] {
    const char* given = std::getenv(kLatency);
    if (!given) return kLatencyUs * 1000;
    char* end = nullptr;
    errno = 0;
    const long long us = std::strtoll(given, &end, 10);
    TORCH_CHECK_VALUE(
        *given && !*end && !errno && us >= 0, kLatency, "=", given, ": expected a number of microseconds");
    return static_cast<int64_t>(us) * 1000;
  }();
  return ns;
}

// A Metal event, with the state that PyTorch stores for it. The listener thread is notified once per timed recording:
// it stores the completion time and sets one token. A wait consumes the token.
struct MpsEvent {
  explicit MpsEvent(uint32_t number) : id(number) {}
  const uint32_t id;
  bool timing = false;
  bool recorded = false;  // ever: the pool does not reset events
  int64_t signals_ns = 0;
  std::deque<int64_t> notices;  // when the listener is notified
  bool token = false;
  int64_t completed_ns = 0;

  bool signalled() const {
    return signals_ns <= now_ns();
  }
  void add_notice() {
    notices.push_back(signals_ns + latency_ns());
  }
  void deliver_notices() {
    for (const auto now = now_ns(); !notices.empty() && notices.front() <= now; notices.pop_front()) {
      completed_ns = notices.front();
      token = true;
    }
  }
};
using MpsEventPtr = std::unique_ptr<MpsEvent>;

struct EventPool {
  std::mutex mutex;
  std::unordered_map<uint32_t, MpsEventPtr> in_use;
  std::stack<MpsEventPtr> spare;
  uint32_t made = 0;

  MpsEvent& at(uint32_t id) {
    const auto it = in_use.find(id);
    TORCH_CHECK(it != in_use.end(), "Invalid Event ID: ", id);
    return *it->second;
  }
  // Consume the token; wait for it if a notification is due.
  void take_token(MpsEvent& event, const char* asked) {
    event.deliver_notices();
    if (!event.token) {
      TORCH_CHECK(
          !event.notices.empty(), asked,
          " would hang for ever on a Mac, and the interpreter with it: what it waits for "
          "has been taken by an earlier call with this event, or the event has not been recorded");
      wait_until(event.notices.front());
      event.deliver_notices();
    }
    event.token = false;
  }
};
EventPool& pool() {
  static auto* p = new EventPool;
  return *p;
}

}  // namespace

uint32_t acquire_mps_event(bool timing) {
  auto& p = pool();
  const std::lock_guard<std::mutex> lock(p.mutex);
  MpsEventPtr event;
  if (p.spare.empty()) {
    event = std::make_unique<MpsEvent>(++p.made);
  } else {
    event = std::move(p.spare.top());
    p.spare.pop();
  }
  event->deliver_notices();
  event->timing = timing;
  event->completed_ns = 0;
  event->token = false;
  const auto id = event->id;
  p.in_use.emplace(id, std::move(event));
  return id;
}

void release_mps_event(uint32_t id) {
  auto& p = pool();
  const std::lock_guard<std::mutex> lock(p.mutex);
  p.at(id);
  auto node = p.in_use.extract(id);
  p.spare.push(std::move(node.mapped()));
}

void record_mps_event(uint32_t id) {
  mark_used();
  auto& p = pool();
  const std::lock_guard<std::mutex> lock(p.mutex);
  auto& event = p.at(id);
  event.deliver_notices();
  event.recorded = true;
  event.signals_ns = keep_busy(stream_state(0, 0), latency_ns());
  if (event.timing) event.add_notice();
}

void wait_for_mps_event(uint32_t id) {
  auto& p = pool();
  const std::lock_guard<std::mutex> lock(p.mutex);
  p.at(id);  // one queue does all the work in order: there is nothing to wait for
}

void synchronize_mps_event(uint32_t id) {
  auto& p = pool();
  const std::lock_guard<std::mutex> lock(p.mutex);
  auto& event = p.at(id);
  if (event.signalled()) return;
  event.add_notice();
  p.take_token(event, "synchronize()");
  // The recording notified the listener, too, and its token may have arrived before this one was consumed.
  wait_until(event.signals_ns + latency_ns());
  event.deliver_notices();
  event.token = false;
}

bool query_mps_event(uint32_t id) {
  auto& p = pool();
  const std::lock_guard<std::mutex> lock(p.mutex);
  const auto& event = p.at(id);
  return event.recorded && event.signalled();
}

double elapsed_between_mps_events(uint32_t start, uint32_t end) {
  synchronize_device(0);
  auto& p = pool();
  const std::lock_guard<std::mutex> lock(p.mutex);
  auto &first = p.at(start), &second = p.at(end);
  p.take_token(second, "elapsed_time()");
  first.deliver_notices();
  TORCH_CHECK(
      first.completed_ns > 0 && second.completed_ns > 0, "Events were not created with argument 'enable_timing=True'");
  TORCH_CHECK(
      second.completed_ns > first.completed_ns, "End event ", end, " was not recorded after start event ", start);
  return static_cast<double>(second.completed_ns - first.completed_ns) * 1e-6;
}

}  // namespace hostdevice
