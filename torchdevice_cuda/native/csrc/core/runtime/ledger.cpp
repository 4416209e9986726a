#include "runtime/ledger.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "runtime/activities.h"
#include "runtime/captures.h"
#include "runtime/streams.h"

namespace hostdevice {

Site (*g_find_site)() = nullptr;
ForwardNode (*g_find_forward_node)() = nullptr;
SourceLine (*g_describe_site)(Site) = nullptr;
bool (*g_is_in_backward)() = nullptr;
void (*g_add_span)(const Span&) = nullptr;

namespace {

struct Cell {
  uint64_t calls = 0, order = 0;
  int64_t ns = 0, bytes = 0;
};
using ByLine = std::unordered_map<Site, Cell>;

// The maximum number of steps of a memory curve; at this number, the length of each step doubles.
constexpr size_t kMostSteps = 1024;
constexpr int64_t kFirstStep = 1'000'000;  // nanoseconds

struct DeviceMemoryTimeline {
  struct Held {
    Site site;
    int64_t bytes;
  };
  std::unordered_map<const void*, Held> blocks;
  std::unordered_map<Site, int64_t> by_line;
  int64_t now = 0, peak = 0, peak_ns = 0, step = kFirstStep;
  // Memory is at its peak now. `held_at_peak` is filled in when that ends, not at every new peak.
  bool at_peak = false;
  std::vector<std::pair<Site, int64_t>> held_at_peak;
  std::vector<MemoryStep> steps;

  void store_peak() {
    if (!at_peak) return;
    at_peak = false;
    held_at_peak = holders();
  }

  std::vector<std::pair<Site, int64_t>> holders() const {
    std::vector<std::pair<Site, int64_t>> found;
    for (const auto& [site, bytes] : by_line)
      if (bytes > 0) found.emplace_back(site, bytes);
    return found;
  }

  void restart() {
    steps.clear();
    step = kFirstStep;
    held_at_peak.clear();
    peak = now;
    peak_ns = now_ns();
    at_peak = true;
  }

  void add_sample(int64_t time) {
    if (steps.empty() || time - steps.back().since_ns >= step) {
      if (steps.size() >= kMostSteps) halve();
      const int64_t before = steps.empty() ? now : steps.back().last;
      steps.push_back({time, std::max(before, now), now});
    } else {
      steps.back().most = std::max(steps.back().most, now);
      steps.back().last = now;
    }
  }

  void halve() {
    step *= 2;
    for (size_t i = 0; i < kMostSteps / 2; i++) {
      const auto &first = steps[2 * i], &second = steps[2 * i + 1];
      steps[i] = {first.since_ns, std::max(first.most, second.most), second.last};
    }
    steps.resize(kMostSteps / 2);
  }
};

// The number of autograd nodes whose operator's line is stored. Nodes live as long as their graph: for graphs with more
// nodes, the earliest are overwritten.
constexpr size_t kForwards = 1 << 16;
// A view has a node but launches nothing: search this many nodes back for the line of an operator before it.
constexpr uint64_t kViews = 8;
struct ForwardLine {
  ForwardNode node;
  Site site = kNoSite;
};

struct Ledger {
  std::mutex mutex;
  std::unordered_set<std::string> names;  // only grows; the elements never move
  std::array<std::unordered_map<const std::string*, ByLine>, kCountedByLine> rows;
  uint64_t cells = 0;  // created so far
  std::map<c10::DeviceIndex, DeviceMemoryTimeline> timelines;
  std::vector<ForwardLine> forwards;

  ForwardLine& forward(ForwardNode node) {
    return forwards[(node.number + node.thread * 0x9E3779B97F4A7C15ULL) % kForwards];
  }
  // The first operator is the one that the node belongs to; others follow until the next node.
  void note(ForwardNode node, Site site) {
    if (!node.number) return;
    if (forwards.empty()) forwards.assign(kForwards, {});
    auto& known = forward(node);
    if (known.node.number != node.number || known.node.thread != node.thread) known = {node, site};
  }
};
Ledger& ledger() {
  static auto* all = new Ledger;  // leaked: threads outlive static destruction
  return *all;
}

thread_local Site t_allocation_site = kNoSite;

}  // namespace

void begin_counting(const std::vector<int64_t>& allocated) {
  auto& all = ledger();
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (auto& names : all.rows) names.clear();
  all.timelines.clear();
  all.forwards.assign(kForwards, {});
  for (size_t i = 0; i < allocated.size(); i++) {
    if (!allocated[i]) continue;
    auto& timeline = all.timelines[static_cast<c10::DeviceIndex>(i)];
    timeline.now = timeline.by_line[kNoSite] = allocated[i];
    timeline.restart();
  }
  set_listener(kCounting, true);
}

void end_counting() {
  auto& all = ledger();
  const std::lock_guard<std::mutex> lock(all.mutex);
  set_listener(kCounting, false);
}

Counts read_counts(bool clear) {
  auto& all = ledger();
  const std::lock_guard<std::mutex> lock(all.mutex);
  Counts found;
  std::map<uint64_t, CountedRow> rows;
  for (size_t kind = 0; kind < all.rows.size(); kind++) {
    for (const auto& [name, lines] : all.rows[kind])
      for (const auto& [site, cell] : lines)
        rows[cell.order] = {static_cast<Counted>(kind), *name, site, cell.calls, cell.ns, cell.bytes};
    if (clear) all.rows[kind].clear();
  }
  for (auto& row : rows) found.rows.push_back(std::move(row.second));
  for (auto& [device, timeline] : all.timelines) {
    timeline.store_peak();
    found.memory.push_back(
        {device, timeline.peak, timeline.peak_ns, timeline.now, timeline.held_at_peak, timeline.steps});
    if (clear) timeline.restart();
  }
  return found;
}

const std::string* intern_name(const std::string& text) {
  auto& all = ledger();
  const std::lock_guard<std::mutex> lock(all.mutex);
  return &*all.names.insert(text).first;
}

void count_work(const Span& span) {
  const bool computes = span.kind < Counted::Wait;
  const bool is_forward = computes && !t_in_deferred_work;  // the current node is that of a later call
  const ForwardNode node = is_forward && g_find_forward_node ? g_find_forward_node() : ForwardNode{};
  auto& all = ledger();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (!is_counted()) return;
  if (g_add_span) g_add_span(span);
  if (const auto kind = static_cast<size_t>(span.kind); kind < kCountedByLine) {
    auto& cell = all.rows[kind][span.name][span.site];
    if (!cell.calls++) cell.order = all.cells++;
    cell.ns += span.ns;
    cell.bytes += span.bytes;
  }
  all.note(node, span.site);
}

std::unique_lock<std::mutex> lock_ledger() {
  return std::unique_lock<std::mutex>(ledger().mutex);
}

std::vector<std::pair<Site, int64_t>> list_holders(c10::DeviceIndex device) {
  const auto lock = lock_ledger();
  return ledger().timelines[device].holders();
}

void note_forward(Site site) {
  const ForwardNode node = g_find_forward_node ? g_find_forward_node() : ForwardNode{};
  auto& all = ledger();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.note(node, site);
}

void set_allocation_site(Site site) {
  t_allocation_site = site;
}

void count_memory(c10::DeviceIndex device, const void* block, int64_t bytes, int64_t allocated) {
  const int64_t time = now_ns();
  auto& all = ledger();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (!is_counted()) return;
  auto& timeline = all.timelines[device];
  if (bytes > 0) {
    timeline.blocks[block] = {t_allocation_site, bytes};
    timeline.by_line[t_allocation_site] += bytes;
  } else {
    timeline.store_peak();
    const auto found = timeline.blocks.find(block);
    // Memory from before the counting belongs to no line.
    timeline.by_line[found == timeline.blocks.end() ? kNoSite : found->second.site] += bytes;
    if (found != timeline.blocks.end()) timeline.blocks.erase(found);
  }
  timeline.now = allocated;
  if (allocated > timeline.peak) {
    timeline.peak = allocated;
    timeline.peak_ns = time;
    timeline.at_peak = true;
  }
  timeline.add_sample(time);
}

Site site_of_forward(ForwardNode node) {
  auto& all = ledger();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (all.forwards.empty()) return kBackward;
  for (uint64_t back = 0; back < kViews && back < node.number; back++) {
    const ForwardNode asked{node.thread, node.number - back};
    const auto& known = all.forward(asked);
    if (known.node.number == asked.number && known.node.thread == asked.thread) return known.site;
  }
  return kBackward;
}

std::mutex& site_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

void lock_ledger_for_fork() {
  site_mutex().lock();
  ledger().mutex.lock();
}
void unlock_ledger_after_fork() {
  ledger().mutex.unlock();
  site_mutex().unlock();
}

}  // namespace hostdevice
