#include "clock/utilization.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>

#include "runtime/published.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

// Cells after the devices' own (monitoring/publishing.py): whether the clock is a GPU's, its offset to the host's,
// since when it stands still on the host's, and for each device the end of its last work, the time that it was busy in
// the last second before, and how much of that second the clock has measured.
constexpr size_t kFirstCell = 256, kLastCell = 512, kOfDevice = 3;
enum Cell : size_t { kIsOn = kFirstCell, kOffset, kStandsSince, kDevices };

// A second is sixteen parts; the last one is incomplete.
constexpr int64_t kPartNs = 62'500'000;
constexpr size_t kParts = 16;

struct Second {
  int64_t busy_until = 0, last_part = 0;
  std::array<int64_t, kParts> busy{};

  void add(int64_t begin, int64_t end) {
    begin = std::max(begin, busy_until);
    if (begin >= end) return;
    busy_until = end;
    const auto last = end / kPartNs;
    for (auto part = std::max(last_part + 1, last - static_cast<int64_t>(kParts) + 1); part <= last; part++)
      busy[static_cast<size_t>(part) % kParts] = 0;
    last_part = last;
    for (auto part = std::max(begin / kPartNs, first_part()); part <= last; part++)
      busy[static_cast<size_t>(part) % kParts] += std::min(end, (part + 1) * kPartNs) - std::max(begin, part * kPartNs);
  }
  int64_t first_part() const {
    return last_part - static_cast<int64_t>(kParts) + 1;
  }
  int64_t sum() const {
    int64_t all = 0;
    for (const auto part : busy) all += part;
    return all;
  }
};

std::mutex g_mutex;
std::map<c10::DeviceIndex, Second> g_seconds;
int64_t g_began = 0;
std::atomic<int> g_still{0};

void store(size_t cell, int64_t value) {
  auto* const cells = g_published.load(std::memory_order_acquire);
  if (cells && cell < kLastCell) cells[cell].store(static_cast<uint64_t>(value), std::memory_order_relaxed);
}

void store_offset() {
  store(kOffset, g_clock_offset_ns.load(std::memory_order_relaxed));
}

}  // namespace

void publish_utilization(bool on) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  g_seconds.clear();
  g_began = now_ns();
  store(kIsOn, on);
}

void add_busy_time(c10::DeviceIndex device, int64_t begin_ns, int64_t end_ns) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  auto& second = g_seconds[device];
  second.add(begin_ns, end_ns);
  const auto end = second.busy_until;
  const auto measured = end - std::max(g_began, second.first_part() * kPartNs);
  const size_t cell = kDevices + kOfDevice * static_cast<size_t>(device);
  // The process may publish only since its first use of a device.
  store(kIsOn, true);
  store_offset();
  store(cell, end);
  store(cell + 1, second.sum());
  store(cell + 2, measured);
}

StandingStill::StandingStill(int64_t steady_ns) {
  if (g_still.fetch_add(1) == 0) store(kStandsSince, steady_ns);
}

StandingStill::~StandingStill() {
  store_offset();
  if (g_still.fetch_sub(1) == 1) store(kStandsSince, 0);
}

}  // namespace hostdevice
