// The work of the devices over time, for a report: each piece, as long as there are few; neighbors are merged later.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/ledger.h"

namespace hostdevice {

// Work of one kind on one stream: one piece, or several that follow each other. `first` has the beginning of the first,
// the time until the end of the last, the sum of the bytes, and the name and the line of the longest.
struct TimelineSpan {
  Span first;
  int64_t busy_ns, longest_ns;
  uint64_t calls;
};

// Start with an empty timeline.
void begin_timeline();
// Return all spans, in the order in which they began on their streams.
std::vector<TimelineSpan> read_timeline(bool clear);

}  // namespace hostdevice
