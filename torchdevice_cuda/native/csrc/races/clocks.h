// Vector clocks: which work is ordered before which, by streams, events and waits of the host.
//
// The actors are the streams. All threads of the host are one more, because they synchronize in ways that cannot be
// observed (queues, locks, joins): an order between two of them is never doubted.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <unordered_map>
#include <vector>

#include "runtime/streams.h"

namespace hostdevice {

using Actor = uint32_t;

// A piece of work: the stream that it is on, and its position there.
struct Epoch {
  Actor actor = 0;
  uint64_t tick = 0;
};

class Clock {
 public:
  uint64_t at(Actor actor) const {
    return actor < ticks_.size() ? ticks_[actor] : 0;
  }
  bool includes(Epoch epoch) const {
    return at(epoch.actor) >= epoch.tick;
  }
  void set(Actor actor, uint64_t tick);
  // Return whether that changed anything.
  bool join(const Clock& other);

 private:
  std::vector<uint64_t> ticks_;
};

struct StreamClock {
  const StreamState* stream;
  int number;  // counted for each device, in the order of first use; 0 for the default stream
  Clock clock;
  uint64_t joined_host = 0;  // the version of the host's clock that it includes
};

class Clocks {
 public:
  Actor find_actor(const StreamState& stream);
  const StreamClock& of(Actor actor) const {
    return streams_[actor];
  }
  const Clock& host() const {
    return host_;
  }

  // Begin work on a stream: it comes after earlier work on the stream, and after all that the host has waited for.
  Epoch begin_work(const StreamState& stream);
  // Return the clock of the next work on a stream.
  const Clock& next_of(Actor actor);
  // Set the clock of a stream's current work.
  void restore(Actor actor, const Clock& clock) {
    streams_[actor].clock = clock;
  }

  void record(const EventState& event, const StreamState& stream);
  void wait(const StreamState& stream, const EventState& event);
  void join(const StreamState& stream, const StreamState& other);
  // Order one piece of work before the next work on a stream, or before what the host does next: a race that was
  // reported is not reported again where it shows once more.
  void join(Actor actor, Epoch epoch);
  void synchronize(Epoch epoch);
  void forget(const EventState& event) {
    events_.erase(&event);
  }
  void synchronize(const StreamState& stream);
  void synchronize(const EventState& event);
  void synchronize(c10::DeviceIndex device);

 private:
  // Return what is before an event; null if it was recorded elsewhere, by another process.
  const Clock* before(const EventState& event) const;
  void join_host(const Clock& clock);
  void join_all(Clock& clock);

  std::deque<StreamClock> streams_;  // elements never move
  std::unordered_map<const StreamState*, Actor> actors_;
  std::unordered_map<const EventState*, Clock> events_;
  std::map<c10::DeviceIndex, int> counts_;
  Clock host_;
  uint64_t host_version_ = 1;
};

}  // namespace hostdevice
