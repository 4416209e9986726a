// Allocations that failed because a device's memory was short, for a report.
#include "counting/shortages.h"

#include "runtime/activities.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

// A program that searches for its largest batch fails often; the first shortages are as good as the others.
constexpr size_t kMostShortages = 16;

// Protected by the ledger's lock.
std::vector<Shortage>& shortages() {
  static auto* all = new std::vector<Shortage>;  // leaked: threads outlive static destruction
  return *all;
}

void note_shortage(const OutOfMemoryInfo& info) {
  Shortage found{info, DeviceWork::site(), now_ns(), list_holders(info.device)};
  const auto lock = lock_ledger();
  if (shortages().size() < kMostShortages) shortages().push_back(std::move(found));
}

}  // namespace

void watch_for_shortages() {
  {
    const auto lock = lock_ledger();
    shortages().clear();
  }
  g_note_shortage.store(&note_shortage, std::memory_order_release);
}

std::vector<Shortage> read_shortages(bool clear) {
  const auto lock = lock_ledger();
  auto found = shortages();
  if (clear) shortages().clear();
  return found;
}

}  // namespace hostdevice
