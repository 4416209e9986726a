#include "runtime/published.h"

#include <pthread.h>

namespace hostdevice {

std::atomic<PublishedCell*> g_published{nullptr};

void publish_at(uintptr_t address) {
  // A forked child inherits the cells: it must not publish, because memory that it frees remains in use by the parent.
  static const int watched = pthread_atfork(nullptr, nullptr, [] { g_published.store(nullptr); });
  g_published.store(watched == 0 ? reinterpret_cast<PublishedCell*>(address) : nullptr, std::memory_order_release);
}

}  // namespace hostdevice
