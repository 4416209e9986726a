#include "runtime/history.h"

#include <chrono>
#include <utility>

namespace hostdevice {

HistorySwitches g_history;

Context context_now() {
  const auto source = g_history.source.load(std::memory_order_relaxed);
  return source ? source() : nullptr;
}

void Trace::add(TraceEntry entry) {
  const size_t limit = g_history.max_entries.load(std::memory_order_relaxed);
  if (limit == 0) return;
  while (entries_.size() >= limit) entries_.pop_front();
  using std::chrono::duration_cast;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  entry.time_us = duration_cast<std::chrono::microseconds>(now).count();
  entries_.push_back(std::move(entry));
}

}  // namespace hostdevice
