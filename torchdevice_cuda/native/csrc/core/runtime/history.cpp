#include "runtime/history.h"

#include <chrono>
#include <mutex>
#include <utility>

namespace hostdevice {

HistorySwitches g_history;
thread_local std::string t_metadata;
thread_local std::vector<std::string> t_compiled;

namespace {

struct Annotations {
  std::mutex mutex;
  std::deque<Annotation> entries;
};
Annotations& annotated() {
  static auto* a = new Annotations;  // leaked: threads may outlive static destruction
  return *a;
}

template <class Entry>
void append_bounded(std::deque<Entry>& entries, Entry entry) {
  const size_t limit = g_history.max_entries.load(std::memory_order_relaxed);
  while (entries.size() >= limit) entries.pop_front();
  entries.push_back(std::move(entry));
}

}  // namespace

Context capture_context(StackRecording least) {
  if (g_history.stacks.load(std::memory_order_relaxed) < least) return nullptr;
  const auto source = g_history.source.load(std::memory_order_relaxed);
  return source ? source() : nullptr;
}

int64_t time_us() {
  using std::chrono::duration_cast;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return duration_cast<std::chrono::microseconds>(now).count();
}

void Trace::add(TraceEntry entry) {
  if (g_history.skipped.load(std::memory_order_relaxed) & (uint32_t{1} << static_cast<int>(entry.action))) return;
  if (g_history.stacks.load(std::memory_order_relaxed) < StackRecording::Alloc) entry.context.reset();
  entry.time_us = time_us();
  entry.compiled = t_compiled.empty() ? "N/A" : t_compiled.back();
  entry.metadata = t_metadata;
  append_bounded(entries_, std::move(entry));
}

void annotate(std::string name, const char* stage, int device) {
  if (!history_enabled()) return;
  auto& a = annotated();
  const std::lock_guard<std::mutex> lock(a.mutex);
  append_bounded(a.entries, Annotation{std::move(name), stage, device, time_us()});
}
std::vector<Annotation> annotations() {
  auto& a = annotated();
  const std::lock_guard<std::mutex> lock(a.mutex);
  return {a.entries.begin(), a.entries.end()};
}
void clear_annotations() {
  auto& a = annotated();
  const std::lock_guard<std::mutex> lock(a.mutex);
  a.entries.clear();
}
void lock_annotations_for_fork() {
  annotated().mutex.lock();
}
void unlock_annotations_after_fork() {
  annotated().mutex.unlock();
}

}  // namespace hostdevice
