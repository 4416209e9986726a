// The work of the devices over time, for a report.
//
// The number of spans is bounded: when there are too many, those of a stream that begin within a certain time of each
// other become one, and that time doubles. So the timeline covers the whole run, coarser the longer it is.
#include "counting/timeline.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace hostdevice {
namespace {

constexpr size_t kMostSpans = 1 << 14;
constexpr int64_t kFirstResolution = 1'000;             // nanoseconds
constexpr int64_t kLastResolution = 3'600'000'000'000;  // lanes that need more are dropped

using Lane = std::tuple<c10::DeviceIndex, c10::StreamId, Counted>;

// Protected by the ledger's lock.
struct Timeline {
  std::map<Lane, std::vector<TimelineSpan>> lanes;
  size_t size = 0;
  int64_t resolution = 0;  // 0: nothing is merged
};
Timeline& timeline() {
  static auto* all = new Timeline;  // leaked: threads outlive static destruction
  return *all;
}

void merge(TimelineSpan& into, const TimelineSpan& next) {
  Span& span = into.first;
  span.ns = std::max(span.began_ns + span.ns, next.first.began_ns + next.first.ns) - span.began_ns;
  span.bytes += next.first.bytes;
  span.of_graph = span.of_graph && next.first.of_graph;
  if (next.longest_ns > into.longest_ns) {
    into.longest_ns = next.longest_ns;
    span.name = next.first.name;
    span.site = next.first.site;
  }
  into.busy_ns += next.busy_ns;
  into.calls += next.calls;
}

// Add a span to its lane, or to the last span there. Threads that share a stream may be out of order: that is merged.
void append(std::vector<TimelineSpan>& lane, const TimelineSpan& next, int64_t resolution) {
  if (!lane.empty() && next.first.began_ns - lane.back().first.began_ns < resolution)
    merge(lane.back(), next);
  else
    lane.push_back(next);
}

void halve(Timeline& all) {
  while (all.size > kMostSpans / 2) {
    all.resolution = std::max(kFirstResolution, all.resolution * 2);
    if (all.resolution > kLastResolution) {
      all.lanes.clear();
      all.size = 0;
    }
    size_t size = 0;
    for (auto& [_, lane] : all.lanes) {
      std::vector<TimelineSpan> merged;
      for (const auto& span : lane) append(merged, span, all.resolution);
      lane = std::move(merged);
      size += lane.size();
    }
    all.size = size;
  }
}

void add_span(const Span& span) {
  auto& all = timeline();
  auto& lane = all.lanes[{span.device, span.stream, span.kind}];
  const size_t before = lane.size();
  append(lane, {span, span.ns, span.ns, 1}, all.resolution);
  all.size += lane.size() - before;
  if (all.size > kMostSpans) halve(all);
}

}  // namespace

void begin_timeline() {
  const auto lock = lock_ledger();
  timeline() = {};
  g_add_span = &add_span;
}

std::vector<TimelineSpan> read_timeline(bool clear) {
  const auto lock = lock_ledger();
  std::vector<TimelineSpan> found;
  for (const auto& [_, lane] : timeline().lanes) found.insert(found.end(), lane.begin(), lane.end());
  if (clear) timeline() = {};
  return found;
}

}  // namespace hostdevice
