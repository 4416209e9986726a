#include "runtime/host.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

namespace hostdevice {

std::atomic<bool> g_only_promises{false};

namespace {

constexpr size_t kAnything = std::numeric_limits<size_t>::max();
constexpr size_t kMaxMargin = size_t{512} << 20;
constexpr size_t kShareOfMargin = 20;
constexpr size_t kMaxUnchecked = size_t{1} << 30;

struct Host {
  std::mutex mutex;  // protects the lists; no other lock is taken under it
  std::vector<HostGroup> groups;
  std::map<char*, size_t> reserved;
  std::atomic<size_t> total{0};  // sum of the sizes in `reserved`
};
Host& host() {
  static auto* h = new Host;  // leaked: tensors outlive static destruction
  return *h;
}
// How many bytes may be reserved without querying the machine again.
std::atomic<int64_t> g_unchecked_bytes{0};

// Read the number after `name` in a file of lines, or the file's first number; return false if it cannot be read.
bool read_number(const char* path, const char* name, size_t& number) {
  std::FILE* f = std::fopen(path, "re");
  if (!f) return false;
  bool found = false;
  char line[256];
  const size_t n = std::strlen(name);
  while (!found && std::fgets(line, sizeof line, f)) {
    unsigned long long value = 0;
    if (std::strncmp(line, name, n) == 0 && std::sscanf(line + n, "%llu", &value) == 1) {
      number = static_cast<size_t>(value);
      found = true;
    }
  }
  std::fclose(f);
  return found;
}

size_t minus(size_t a, size_t b) {
  return a > b ? a - b : 0;
}

// Return what the machine and its control groups have left, less a margin for everything other than tensors.
size_t available(const std::vector<HostGroup>& groups) {
  size_t least = kAnything, size = kAnything, kib = 0;
  if (read_number("/proc/meminfo", "MemAvailable:", kib)) least = kib * 1024;
  if (read_number("/proc/meminfo", "MemTotal:", kib)) size = kib * 1024;
  for (const auto& group : groups) {
    size_t used = 0, cached = 0;
    if (!read_number(group.usage.c_str(), "", used)) continue;
    // Do not count inactive file pages as used: the system drops them before it kills a process.
    if (!read_number(group.statistics.c_str(), "total_inactive_file ", cached))
      read_number(group.statistics.c_str(), "inactive_file ", cached);
    least = std::min(least, minus(group.limit, minus(used, cached)));
    size = std::min(size, group.limit);
  }
  if (least == kAnything) return kAnything;
  return minus(least, std::min(kMaxMargin, size / kShareOfMargin));
}

// Return the reserved bytes that were never touched.
size_t count_untouched([[maybe_unused]] const std::map<char*, size_t>& reserved) {
  size_t found = 0;
#ifdef __linux__
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages;
  for (const auto& [start, size] : reserved) {
    pages.assign((size + page - 1) / page, 0);
    if (mincore(start, size, pages.data()) != 0) continue;
    found += page * static_cast<size_t>(std::count_if(pages.begin(), pages.end(), [](auto p) { return !(p & 1); }));
  }
#endif
  return found;
}

// Return the bytes left. Do not count untouched pages if at least `enough` bytes are left without that.
size_t left(Host& h, size_t enough) {
  const size_t found = available(h.groups);
  if (found == kAnything) return kAnything;
  const size_t surely = minus(found, h.total.load());
  return surely >= enough ? surely : minus(found, count_untouched(h.reserved));
}

}  // namespace

void set_control_groups(std::vector<HostGroup> groups) {
  auto& h = host();
  const std::lock_guard<std::mutex> lock(h.mutex);
  h.groups = std::move(groups);
  g_unchecked_bytes = 0;
}

bool can_reserve_host(size_t size) {
  if (g_only_promises) return true;
  const auto wanted = static_cast<int64_t>(size);
  if (g_unchecked_bytes.fetch_sub(wanted) >= wanted) return true;
  auto& h = host();
  const std::lock_guard<std::mutex> lock(h.mutex);
  const size_t found = left(h, 2 * size);
  g_unchecked_bytes = found < size ? 0 : static_cast<int64_t>(std::min((found - size) / 2, kMaxUnchecked));
  return found >= size;
}

size_t host_left() {
  if (g_only_promises) return kAnything;
  auto& h = host();
  const std::lock_guard<std::mutex> lock(h.mutex);
  return left(h, kAnything);
}

void record_reserved(char* start, size_t size) {
  auto& h = host();
  const std::lock_guard<std::mutex> lock(h.mutex);
  h.reserved[start] = size;
  h.total += size;
}

void record_released(char* start, size_t size) {
  auto& h = host();
  const std::lock_guard<std::mutex> lock(h.mutex);
  char* const end = start + size;
  auto it = h.reserved.upper_bound(start);
  if (it != h.reserved.begin()) --it;
  while (it != h.reserved.end() && it->first < end) {
    char* const from = std::max(start, it->first);
    char* const to = std::min(end, it->first + it->second);
    if (from >= to) {
      ++it;
      continue;
    }
    h.total -= static_cast<size_t>(to - from);
    const auto [first, length] = *it;
    it = h.reserved.erase(it);
    if (first < from) h.reserved[first] = static_cast<size_t>(from - first);
    if (to < first + length) h.reserved[to] = static_cast<size_t>(first + length - to);
  }
}

}  // namespace hostdevice
