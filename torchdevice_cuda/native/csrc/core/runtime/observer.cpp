#include "runtime/observer.h"

#include <c10/util/Exception.h>

#include <mutex>

namespace hostdevice {

Observers g_observers;

void add_observer(StreamObserver& observer) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto count = g_observers.count.load();
  TORCH_INTERNAL_ASSERT(count < kMaxObservers, "too many observers of streams");
  g_observers.all[count].store(&observer);
  g_observers.count.store(count + 1, std::memory_order_release);
}

}  // namespace hostdevice
