#include "races/clocks.h"

#include <algorithm>

namespace hostdevice {

void Clock::set(Actor actor, uint64_t tick) {
  if (actor >= ticks_.size()) ticks_.resize(actor + 1);
  ticks_[actor] = tick;
}

bool Clock::join(const Clock& other) {
  if (other.ticks_.size() > ticks_.size()) ticks_.resize(other.ticks_.size());
  bool changed = false;
  for (size_t i = 0; i < other.ticks_.size(); i++) {
    if (other.ticks_[i] <= ticks_[i]) continue;
    ticks_[i] = other.ticks_[i];
    changed = true;
  }
  return changed;
}

Actor Clocks::find_actor(const StreamState& stream) {
  const auto [found, is_new] = actors_.try_emplace(&stream, static_cast<Actor>(streams_.size()));
  if (is_new)
    streams_.push_back(
        {&stream, stream.id == 0 || is_collective_stream(stream.id) ? 0 : ++counts_[stream.device], {}, 0});
  return found->second;
}

const Clock& Clocks::next_of(Actor actor) {
  auto& s = streams_[actor];
  if (s.joined_host != host_version_) {
    s.clock.join(host_);
    s.joined_host = host_version_;
  }
  return s.clock;
}

Epoch Clocks::begin_work(const StreamState& stream) {
  const Actor actor = find_actor(stream);
  next_of(actor);
  auto& clock = streams_[actor].clock;
  const Epoch epoch{actor, clock.at(actor) + 1};
  clock.set(actor, epoch.tick);
  return epoch;
}

const Clock* Clocks::before(const EventState& event) const {
  const auto found = events_.find(&event);
  return found == events_.end() ? nullptr : &found->second;
}

void Clocks::record(const EventState& event, const StreamState& stream) {
  events_[&event] = next_of(find_actor(stream));
}

void Clocks::wait(const StreamState& stream, const EventState& event) {
  auto& clock = streams_[find_actor(stream)].clock;
  if (const Clock* known = before(event))
    clock.join(*known);
  else
    join_all(clock);
}

void Clocks::join(const StreamState& stream, const StreamState& other) {
  const Clock clock = next_of(find_actor(other));
  streams_[find_actor(stream)].clock.join(clock);
}

void Clocks::join(Actor actor, Epoch epoch) {
  auto& clock = streams_[actor].clock;
  if (!clock.includes(epoch)) clock.set(epoch.actor, epoch.tick);
}

void Clocks::synchronize(Epoch epoch) {
  if (host_.includes(epoch)) return;
  host_.set(epoch.actor, epoch.tick);
  host_version_++;
}

void Clocks::join_host(const Clock& clock) {
  if (host_.join(clock)) host_version_++;
}

// What another process orders is unknown, so nothing is doubted after a wait for its events.
void Clocks::join_all(Clock& clock) {
  for (const auto& s : streams_)
    if (&s.clock != &clock) clock.join(s.clock);
}

void Clocks::synchronize(const StreamState& stream) {
  join_host(streams_[find_actor(stream)].clock);
}

void Clocks::synchronize(const EventState& event) {
  if (const Clock* known = before(event)) {
    join_host(*known);
    return;
  }
  Clock all;
  join_all(all);
  join_host(all);
}

void Clocks::synchronize(c10::DeviceIndex device) {
  for (const auto& s : streams_)
    if (s.stream->device == device) join_host(s.clock);
}

}  // namespace hostdevice
