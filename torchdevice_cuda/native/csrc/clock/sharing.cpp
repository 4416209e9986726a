#include "clock/sharing.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>

#include "runtime/streams.h"

namespace hostdevice {
namespace {

struct Collective {
  int64_t begin_ns, end_ns;
};
// The most that are remembered: later kernels meet the latest ones only.
constexpr size_t kRemembered = 64;

struct Shared {
  std::deque<Collective> collectives;
  // The stream of the last kernel, and how much longer its kernels take beside a collective, in the mean.
  StreamState* last = nullptr;
  double crowded = 1;
};

std::mutex g_shared_mutex;
// Before the first collective, no kernel takes the lock.
std::atomic<bool> g_has_collectives{false};

std::map<c10::DeviceIndex, Shared>& all_shared() {
  static auto* all = new std::map<c10::DeviceIndex, Shared>;
  return *all;
}

}  // namespace

void add_collective(StreamState& stream, int64_t begin_ns, int64_t end_ns) {
  g_has_collectives.store(true);
  const std::lock_guard<std::mutex> lock(g_shared_mutex);
  Shared& shared = all_shared()[stream.device];
  shared.collectives.push_back({begin_ns, end_ns});
  if (shared.collectives.size() > kRemembered) shared.collectives.pop_front();
  if (!shared.last || shared.last == &stream) return;
  const auto queued = static_cast<double>(shared.last->ready_ns.load() - begin_ns);
  const double slowed = std::min(queued, static_cast<double>(end_ns - begin_ns) / shared.crowded);
  if (slowed > 0) shared.last->ready_ns.fetch_add(static_cast<int64_t>(slowed * (shared.crowded - 1)));
}

int64_t find_end(StreamState& stream, int64_t begin_ns, int64_t ns, double crowded) {
  if (!g_has_collectives.load(std::memory_order_relaxed)) return begin_ns + ns;
  const std::lock_guard<std::mutex> lock(g_shared_mutex);
  Shared& shared = all_shared()[stream.device];
  // Short kernels say little.
  const double weight = std::min(static_cast<double>(ns) / 1e6, 0.1);
  shared.last = &stream;
  shared.crowded += weight * (crowded - shared.crowded);
  double end = static_cast<double>(begin_ns), left = static_cast<double>(ns);
  for (const Collective& each : shared.collectives) {
    const auto from = static_cast<double>(each.begin_ns), to = static_cast<double>(each.end_ns);
    if (to <= end) continue;
    const double before = std::max(from - end, 0.0);
    if (left <= before) break;
    left -= before;
    end += before;
    const double done = std::min(left, (to - end) / crowded);
    left -= done;
    end += done * crowded;
    if (left <= 0) break;
  }
  return static_cast<int64_t>(end + left);
}

void forget_collectives() {
  const std::lock_guard<std::mutex> lock(g_shared_mutex);
  g_has_collectives.store(false);
  all_shared().clear();
}

}  // namespace hostdevice
