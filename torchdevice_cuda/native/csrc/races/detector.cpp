#include "races/detector.h"

#include <algorithm>
#include <utility>

#include "runtime/allocator.h"
#include "runtime/device.h"

namespace hostdevice {
namespace {

// Leftovers beyond this number are dropped, the oldest first, which can only hide races.
constexpr size_t kMostLeftovers = 1024;

// The line at which the calling thread allocates or frees.
thread_local Site t_memory_site = kNoSite;

bool is_device_address(const Layout& layout) {
  return device_of_address(reinterpret_cast<const void*>(layout.begin())) >= 0;
}

std::shared_ptr<const AccessInfo> describe(Actor actor, const Caller& caller, const NewAccess& access) {
  return std::make_shared<const AccessInfo>(
      AccessInfo{caller.op, caller.site, caller.in_backward, actor, access.writes, access.type, access.sizes});
}

std::string name_line(const AccessInfo& access) {
  return std::to_string(access.site) + (access.site < kFirstSite ? *access.op : std::string());
}

}  // namespace

void (*Detector::report)(const Finding& finding, bool can_raise) = nullptr;

Detector& Detector::get() {
  static auto* one = new Detector;  // leaked: streams outlive static destruction
  return *one;
}

Caller find_caller(const std::string* op) {
  return {op, find_site(), g_is_in_backward && g_is_in_backward()};
}

NewAccess access_of(const at::Tensor& t, bool writes) {
  return {Layout(t), writes, t.scalar_type(), t.sizes().vec()};
}

// ---- accesses
// --------------------------------------------------------------------------------------------------------

Epoch Detector::begin_work(const StreamState& stream, const Caller& caller, const std::vector<NewAccess>& accesses) {
  Lock lock(mutex_);
  const Epoch epoch = clocks_.begin_work(stream);
  add_accesses(epoch, caller, accesses);
  report_new(lock);
  return epoch;
}

void Detector::continue_work(
    const StreamState&, Epoch epoch, const Caller& caller, const std::vector<NewAccess>& accesses) {
  Lock lock(mutex_);
  add_accesses(epoch, caller, accesses);
  report_new(lock);
}

void Detector::add_accesses(Epoch epoch, const Caller& caller, const std::vector<NewAccess>& accesses) {
  const Clock& clock = clocks_.of(epoch.actor).clock;
  for (const auto& access : accesses) {
    if (access.layout.is_empty()) continue;
    const auto info = describe(epoch.actor, caller, access);
    const bool on_device = is_device_address(access.layout);
    Shadow& shadow = on_device ? device_ : pinned_;
    const auto is_before = [&](const Access& earlier) { return clock.includes(earlier.epoch); };
    shadow.check(access.layout, access.writes, [&](const Access& earlier) {
      if (is_before(earlier)) return true;
      Finding finding;
      if (const Block* block = block_at(access.layout.begin())) {
        finding.allocated = block->allocated;
        finding.owner_stream = name_stream(clocks_.find_actor(*block->stream));
      }
      find(FindingKind::Streams, *earlier.info, *info, std::move(finding));
      clocks_.join(epoch.actor, earlier.epoch);
      return false;
    });
    if (on_device && !leftovers_.empty()) check_leftovers(access.layout, *info, clock);
    shadow.add({epoch, access.layout, info}, is_before);
    if (!on_device) has_pinned_.store(true, std::memory_order_release);
  }
}

// The memory of an access may have been freed by a tensor that another stream still used.
void Detector::check_leftovers(const Layout& layout, const AccessInfo& later, const Clock& clock) {
  const Block* block = block_at(layout.begin());
  if (!block) return;
  for (auto it = leftovers_.begin(); it != leftovers_.end();) {
    const auto& left = *it;
    if (clocks_.next_of(clocks_.find_actor(*left.block.stream)).includes(left.access.epoch)) {
      it = leftovers_.erase(it);
      continue;
    }
    // The allocator could have chosen the freed memory for this block, even if it chose another this time.
    const bool could_reuse = block->order > left.freed_order && block->stream == left.block.stream &&
        block->pool == left.block.pool && block->end - block->begin <= left.block.end - left.block.begin;
    if (could_reuse && (later.writes || left.access.info->writes) && !clock.includes(left.access.epoch)) {
      Finding finding;
      finding.allocated = left.block.allocated;
      finding.freed = left.freed;
      finding.owner_stream = name_stream(clocks_.find_actor(*left.block.stream));
      find(FindingKind::Freed, *left.access.info, later, std::move(finding));
      clocks_.join(later.actor, left.access.epoch);
      it = leftovers_.erase(it);
      continue;
    }
    ++it;
  }
}

void Detector::access_on_host(const Caller& caller, const std::vector<NewAccess>& accesses, bool can_raise) {
  Lock lock(mutex_);
  for (const auto& access : accesses) {
    if (access.layout.is_empty()) continue;
    pinned_.check(access.layout, access.writes, [&](const Access& earlier) {
      if (clocks_.host().includes(earlier.epoch)) return true;
      find(FindingKind::Host, *earlier.info, *describe(kHost, caller, access), {});
      clocks_.synchronize(earlier.epoch);
      return false;
    });
  }
  report_new(lock, can_raise);
}

bool Detector::may_be_in_flight(const Layout& layout) {
  if (!has_pinned_.load(std::memory_order_acquire)) return false;
  const Lock lock(mutex_);
  bool any = false;
  pinned_.each(
      layout.begin(), layout.end(), [&](const Access& access) { any = any || !clocks_.host().includes(access.epoch); });
  return any;
}

const Detector::Block* Detector::block_at(uintptr_t address) const {
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return nullptr;
  --it;
  return address < it->second.end ? &it->second : nullptr;
}

// ---- findings
// --------------------------------------------------------------------------------------------------------

std::string Detector::name_stream(Actor actor) const {
  if (actor == kHost) return "the host";
  const auto& s = clocks_.of(actor);
  const std::string name = s.number == 0 ? "the default stream" : "stream " + std::to_string(s.number);
  return device_count() > 1 ? name + " of cuda:" + std::to_string(s.stream->device) : name;
}

void Detector::find(FindingKind kind, const AccessInfo& earlier, const AccessInfo& later, Finding finding) {
  if (!reported_.emplace(name_line(earlier), name_line(later)).second) return;
  finding.kind = kind;
  finding.earlier = earlier;
  finding.later = later;
  finding.earlier_stream = name_stream(earlier.actor);
  finding.later_stream = name_stream(later.actor);
  finding.device = clocks_.of(earlier.actor).stream->device;
  const Clock& clock = later.actor == kHost ? clocks_.host() : clocks_.of(later.actor).clock;
  finding.waits_for_earlier_work = clock.at(earlier.actor) > clocks_.host().at(earlier.actor);
  new_.push_back(std::move(finding));
}

void Detector::report_new(Lock& lock, bool can_raise) {
  if (new_.empty()) return;
  const auto found = std::exchange(new_, {});
  lock.unlock();
  for (const auto& finding : found) report(finding, can_raise);
}

// ---- order
// -----------------------------------------------------------------------------------------------------------

void Detector::order(const StreamState& stream, const StreamState& after) {
  const Lock lock(mutex_);
  clocks_.join(stream, after);
}

void Detector::wait_on_host(const StreamState& stream) {
  synchronize(stream);
}

void Detector::record_event(const EventState& event, const StreamState& stream) {
  const Lock lock(mutex_);
  clocks_.record(event, stream);
}

void Detector::wait_for_event(const StreamState& stream, const EventState& event) {
  const Lock lock(mutex_);
  clocks_.wait(stream, event);
}

void Detector::destroy_event(const EventState& event) {
  const Lock lock(mutex_);
  clocks_.forget(event);
}

void Detector::synchronize(const StreamState& stream) {
  const Lock lock(mutex_);
  clocks_.synchronize(stream);
  drop_finished_host_accesses();
}

void Detector::synchronize(const EventState& event) {
  const Lock lock(mutex_);
  clocks_.synchronize(event);
  drop_finished_host_accesses();
}

void Detector::synchronize(c10::DeviceIndex device) {
  const Lock lock(mutex_);
  clocks_.synchronize(device);
  drop_finished_host_accesses();
}

void Detector::end_query(const StreamState& stream, bool is_done) {
  if (is_done) synchronize(stream);
}

void Detector::end_query(const EventState& event, bool is_done) {
  if (is_done) synchronize(event);
}

void Detector::drop_finished_host_accesses() {
  if (pinned_.is_empty()) return;
  pinned_.erase_if([&](const Access& access) { return clocks_.host().includes(access.epoch); });
  has_pinned_.store(!pinned_.is_empty(), std::memory_order_release);
}

// ---- memory
// ----------------------------------------------------------------------------------------------------------

void Detector::begin_memory_call() {
  t_memory_site = find_site();
}

void Detector::allocate(const ObservedBlock& b) {
  const Lock lock(mutex_);
  const auto at = reinterpret_cast<uintptr_t>(b.at);
  blocks_[at] = {at, at + b.bytes, &stream_state(b.device, b.stream), b.pool, ++order_, t_memory_site};
}

void Detector::free(const ObservedBlock& b) {
  const Lock lock(mutex_);
  const auto at = reinterpret_cast<uintptr_t>(b.at);
  const auto found = blocks_.find(at);
  const auto& stream = stream_state(b.device, b.stream);
  const Block block = found == blocks_.end() ? Block{at, at + b.bytes, &stream, b.pool, 0, kNoSite} : found->second;
  const uint64_t order = ++order_;
  const Clock& next = clocks_.next_of(clocks_.find_actor(stream));
  device_.each(at, at + b.bytes, [&](const Access& access) {
    if (next.includes(access.epoch)) return;
    const auto& user = *clocks_.of(access.epoch.actor).stream;
    // Memory is not reused before the streams of record_stream() have reached this point.
    if (user.device == b.device && std::find(b.used_by.begin(), b.used_by.end(), user.id) != b.used_by.end()) return;
    if (leftovers_.size() >= kMostLeftovers) leftovers_.erase(leftovers_.begin());
    leftovers_.push_back({access, block, order, t_memory_site});
  });
  device_.erase(at, at + b.bytes);
  if (found != blocks_.end()) blocks_.erase(found);
}

void Detector::unmap(char* at, size_t bytes) {
  const Lock lock(mutex_);
  const auto begin = reinterpret_cast<uintptr_t>(at), end = begin + bytes;
  device_.erase(begin, end);
  const auto is_inside = [&](const Leftover& left) { return left.block.begin >= begin && left.block.begin < end; };
  leftovers_.erase(std::remove_if(leftovers_.begin(), leftovers_.end(), is_inside), leftovers_.end());
}

void Detector::free_pinned(char* at, size_t bytes) {
  const Lock lock(mutex_);
  const auto begin = reinterpret_cast<uintptr_t>(at);
  pinned_.erase(begin, begin + bytes);
}

}  // namespace hostdevice
