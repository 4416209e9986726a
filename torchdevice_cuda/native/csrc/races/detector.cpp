#include "races/detector.h"

#include <Python.h>

#include <utility>

#include "operators/alias.h"
#include "races/pages.h"
#include "runtime/allocator.h"
#include "runtime/device.h"

namespace hostdevice {
namespace {

std::shared_ptr<const AccessInfo> describe(const StreamState* stream, const Caller& caller, const NewAccess& access) {
  return std::make_shared<const AccessInfo>(AccessInfo{
      caller.op, caller.site, caller.in_backward, stream, access.writes, access.type, access.sizes, now_ns()});
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
  return {Layout(t), writes, t.scalar_type(), t.sizes().vec(), is_device_tensor(t)};
}

// ---- accesses ------------------------------------------------------------------------------------------------------

Epoch Detector::begin_work(
    const StreamState& stream, const Caller& caller, const std::vector<NewAccess>& accesses, Raises raises) {
  Lock lock(mutex_);
  const Epoch epoch = main_.clocks.begin_work(stream);
  add_accesses(main_, epoch, caller, accesses);
  report_new(lock, raises);
  return epoch;
}

void Detector::continue_work(Epoch epoch, const Caller& caller, const std::vector<NewAccess>& accesses) {
  Lock lock(mutex_);
  add_accesses(main_, epoch, caller, accesses);
  report_new(lock);
}

std::vector<NewAccess> list_observed(const std::vector<ObservedAccess>& accesses) {
  std::vector<NewAccess> all;
  for (const auto& a : accesses)
    all.push_back(
        {Layout(reinterpret_cast<uintptr_t>(a.at), a.bytes), a.writes, a.type, a.sizes.vec(),
         device_of_address(a.at) >= 0});
  return all;
}

void Detector::run_work(const StreamState& stream, const char* name, const std::vector<ObservedAccess>& accesses) {
  if (accesses.empty() || stream.capture.load() != 0) return;
  // A launch of a kernel is a call of C, through which no exception passes.
  begin_work(stream, find_caller(intern_name(name)), list_observed(accesses), Raises::Later);
}

void Detector::add_accesses(Order& order, Epoch epoch, const Caller& caller, const std::vector<NewAccess>& accesses) {
  for (const auto& access : accesses) {
    if (access.layout.is_empty()) continue;
    const auto info = describe(order.clocks.of(epoch.actor).stream, caller, access);
    Shadow& shadow = access.on_device ? order.device : order.pinned;
    const auto is_before = [&](const Access& earlier) {
      return order.clocks.of(epoch.actor).clock.includes(earlier.epoch);
    };
    shadow.check(access.layout, access.writes, [&](const Access& earlier) {
      if (is_before(earlier)) return true;
      Finding finding;
      if (const Block* block = block_at(access.layout.begin())) finding.allocated = block->allocated;
      find(order, FindingKind::Streams, *earlier.info, *info, finding);
      order.clocks.join(epoch.actor, earlier.epoch);
      return false;
    });
    if (access.on_device && !order.leftovers.empty()) check_leftovers(order, access.layout, *info, epoch.actor);
    shadow.add({epoch, access.layout, info}, is_before);
    if (!access.on_device && &order == &main_) has_pinned_.store(true, std::memory_order_release);
  }
}

// The memory of an access may have been freed by a tensor that another stream still used.
void Detector::check_leftovers(Order& order, const Layout& layout, const AccessInfo& later, Actor actor) {
  const Block* block = block_at(layout.begin());
  if (!block) return;
  for (auto it = order.leftovers.begin(); it != order.leftovers.end();) {
    const auto& left = *it;
    const Actor owner = order.clocks.find_actor(*left.block.stream);
    if (order.clocks.next_of(owner).includes(left.access.epoch)) {
      it = order.leftovers.erase(it);
      continue;
    }
    // The allocator could have chosen the freed memory for this block, even if it chose another this time.
    const bool could_reuse = block->number > left.free_number && block->stream == left.block.stream &&
        block->pool == left.block.pool && block->end - block->begin <= left.block.end - left.block.begin;
    const bool conflicts = later.writes || left.access.info->writes;
    if (could_reuse && conflicts && !order.clocks.of(actor).clock.includes(left.access.epoch)) {
      Finding finding;
      finding.allocated = left.block.allocated;
      finding.freed = left.freed;
      finding.owner_stream = name_stream(*left.block.stream);
      find(order, FindingKind::Freed, *left.access.info, later, finding);
      order.clocks.join(actor, left.access.epoch);
      it = order.leftovers.erase(it);
      continue;
    }
    ++it;
  }
}

void Detector::access_on_host(const Caller& caller, const std::vector<NewAccess>& accesses, Raises raises) {
  Lock lock(mutex_);
  for (const auto& access : accesses) {
    if (access.layout.is_empty()) continue;
    main_.pinned.check(access.layout, access.writes, [&](const Access& earlier) {
      if (main_.clocks.host().includes(earlier.epoch)) return true;
      find(main_, FindingKind::Host, *earlier.info, *describe(nullptr, caller, access), {});
      main_.clocks.synchronize(earlier.epoch);
      return false;
    });
  }
  if (!new_.empty()) drop_finished_host_accesses();
  report_new(lock, raises);
}

bool Detector::may_be_in_flight(const Layout& layout) {
  if (!has_pinned_accesses()) return false;
  const Lock lock(mutex_);
  return is_in_flight(layout);
}

bool Detector::is_in_flight(const Layout& layout) const {
  bool any = false;
  main_.pinned.each(layout.begin(), layout.end(), [&](const Access& access) {
    any = any || !main_.clocks.host().includes(access.epoch);
  });
  return any;
}

void Detector::watch_pages() {
  g_access_to_page = [](uintptr_t address, bool writes) { get().access_page(address, writes); };
}

// The type of what the host accesses is unknown: name the tensor of the copy.
void Detector::access_page(uintptr_t address, bool writes) {
  NewAccess access{Layout(address, 1), writes, c10::ScalarType::Byte, {}, false};
  {
    const Lock lock(mutex_);
    main_.pinned.each(address, address + 1, [&](const Access& earlier) {
      access.type = earlier.info->type;
      access.sizes = earlier.info->sizes;
    });
  }
  // A thread of a library cannot run Python while the thread that waits for it has the interpreter.
  const bool runs_python = PyGILState_GetThisThreadState() != nullptr;
  static const std::string* const name = intern_name("memory access");
  access_on_host(find_caller(name), {access}, runs_python ? Raises::Later : Raises::Never);
}

// ---- findings ------------------------------------------------------------------------------------------------------

std::string Detector::name_stream(const StreamState& stream) {
  const int number = main_.clocks.of(main_.clocks.find_actor(stream)).number;
  const std::string name = is_collective_stream(stream.id) ? "the stream of collectives"
      : stream.id == 0                                     ? "the default stream"
                                                           : "stream " + std::to_string(number);
  return device_count() > 1 ? name + " of cuda:" + std::to_string(stream.device) : name;
}

void Detector::find(
    Order& order, FindingKind kind, const AccessInfo& earlier, const AccessInfo& later, Finding finding) {
  if (!reported_.emplace(name_line(earlier), name_line(later)).second) return;
  finding.kind = kind;
  finding.earlier = earlier;
  finding.later = later;
  finding.earlier_stream = name_stream(*earlier.stream);
  finding.later_stream = later.stream ? name_stream(*later.stream) : "the host";
  finding.device = earlier.stream->device;
  auto& clocks = order.clocks;
  const Actor before = clocks.find_actor(*earlier.stream);
  const Clock& clock = later.stream ? clocks.of(clocks.find_actor(*later.stream)).clock : clocks.host();
  finding.waits_for_earlier_work = clock.at(before) > clocks.host().at(before);
  new_.push_back(std::move(finding));
}

void Detector::forget_findings() {
  const Lock lock(mutex_);
  reported_.clear();
  new_.clear();
}

void Detector::report_new(Lock& lock, Raises raises) {
  if (new_.empty() || raises == Raises::Never) return;
  const auto found = std::exchange(new_, {});
  lock.unlock();
  for (const auto& finding : found) report(finding, raises == Raises::Now);
}

// ---- order ---------------------------------------------------------------------------------------------------------

void Detector::order(const StreamState& stream, const StreamState& after) {
  const Lock lock(mutex_);
  main_.clocks.join(stream, after);
}

void Detector::record_event(const EventState& event, const StreamState& stream) {
  const Lock lock(mutex_);
  Graph* const graph = find_graph(stream.capture.load());
  (graph ? graph->order : main_).clocks.record(event, stream);
}

void Detector::wait_for_event(const StreamState& stream, const EventState& event) {
  const Lock lock(mutex_);
  Graph* const graph = find_graph(event.capture.load());
  (graph ? graph->order : main_).clocks.wait(stream, event);
}

void Detector::destroy_event(const EventState& event) {
  const Lock lock(mutex_);
  main_.clocks.forget(event);
  for (auto& [capture, graph] : graphs_) graph.order.clocks.forget(event);
}

void Detector::synchronize(const StreamState& stream) {
  const Lock lock(mutex_);
  main_.clocks.synchronize(stream);
  drop_finished_host_accesses();
}

void Detector::synchronize(const EventState& event) {
  const Lock lock(mutex_);
  main_.clocks.synchronize(event);
  drop_finished_host_accesses();
}

void Detector::synchronize(c10::DeviceIndex device) {
  const Lock lock(mutex_);
  main_.clocks.synchronize(device);
  drop_finished_host_accesses();
}

void Detector::end_query(const StreamState& stream, bool is_done) {
  if (is_done) synchronize(stream);
}

void Detector::end_query(const EventState& event, bool is_done) {
  if (is_done) synchronize(event);
}

void Detector::drop_finished_host_accesses() {
  if (main_.pinned.is_empty()) return;
  main_.pinned.erase_if([&](const Access& access) { return main_.clocks.host().includes(access.epoch); });
  has_pinned_.store(!main_.pinned.is_empty(), std::memory_order_release);
  // The lock is held.
  unprotect_idle_pages([](uintptr_t begin, uintptr_t end) { return get().is_in_flight(Layout(begin, end - begin)); });
}

}  // namespace hostdevice
