#include "races/pages.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "runtime/captures.h"
#include "runtime/pinned.h"

namespace hostdevice {

void (*g_access_to_page)(uintptr_t address, bool writes) = nullptr;

namespace {

#ifdef __APPLE__
constexpr int kFault = SIGBUS;
#else
constexpr int kFault = SIGSEGV;
#endif

struct Range {
  uintptr_t end;
  int access;  // what is still allowed, for mprotect()
};
// The protected ranges, by address. They do not overlap. No other lock is taken under this one.
struct Pages {
  std::mutex mutex;
  std::map<uintptr_t, Range> ranges;
  std::atomic<size_t> count{0};

  // Return the first range that ends after an address.
  std::map<uintptr_t, Range>::iterator find(uintptr_t address) {
    auto it = ranges.upper_bound(address);
    return it != ranges.begin() && std::prev(it)->second.end > address ? std::prev(it) : it;
  }
  std::map<uintptr_t, Range>::iterator unprotect(std::map<uintptr_t, Range>::iterator it) {
    mprotect(reinterpret_cast<void*>(it->first), it->second.end - it->first, PROT_READ | PROT_WRITE);
    count--;
    return ranges.erase(it);
  }
};
Pages& pages() {
  static auto* all = new Pages;  // leaked: accesses outlive static destruction
  return *all;
}

uintptr_t page_size() {
  static const auto size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  return size;
}

struct sigaction g_previous = {};

// The faulting instruction is the program's, and holds none of the locks that are taken here: unlike the handler of a
// signal that arrives at any time, this one may do what a function may.
void handle_fault(int number, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  auto& all = pages();
  int access = PROT_NONE;
  bool is_protected = false;
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto it = all.find(address);
    if (it != all.ranges.end() && it->first <= address) {
      access = it->second.access;
      is_protected = true;
      all.unprotect(it);
    }
  }
  if (!is_protected) {
    // The instruction runs again, under the handler that was here before.
    sigaction(number, &g_previous, nullptr);
  } else if (!t_in_node && g_threads_in_deferred_work.load() == 0 && g_access_to_page) {
    // The device's own copies, which may use threads of a library, are ordered by streams.
    g_access_to_page(address, access == PROT_READ);
  }
}

// Make this the first handler, also before one that was installed since, as Python's faulthandler is.
void install_handler() {
  struct sigaction now = {};
  sigaction(kFault, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == &handle_fault) return;
  g_previous = now;
  struct sigaction own = {};
  own.sa_sigaction = &handle_fault;
  own.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&own.sa_mask);
  sigaction(kFault, &own, nullptr);
}

}  // namespace

void protect_pages(const Layout& layout, bool is_written) {
  const auto page = page_size(),
             outside = is_pinned_block(reinterpret_cast<const void*>(layout.begin())) ? page - 1 : 0;
  uintptr_t begin = (layout.begin() + page - 1 - outside) / page * page, end = (layout.end() + outside) / page * page;
  if (begin >= end) return;
  int access = is_written ? PROT_NONE : PROT_READ;
  auto& all = pages();
  const std::lock_guard<std::mutex> lock(all.mutex);
  install_handler();
  for (auto it = all.find(begin); it != all.ranges.end() && it->first < end; it = all.unprotect(it)) {
    begin = std::min(begin, it->first);
    end = std::max(end, it->second.end);
    access = std::min(access, it->second.access);  // PROT_NONE is the least
  }
  all.ranges.emplace(begin, Range{end, access});
  all.count++;
  mprotect(reinterpret_cast<void*>(begin), end - begin, access);
}

void unprotect_pages(uintptr_t begin, uintptr_t end) {
  auto& all = pages();
  if (all.count.load() == 0) return;
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (auto it = all.find(begin); it != all.ranges.end() && it->first < end;) it = all.unprotect(it);
}

void unprotect_idle_pages(bool (*is_in_flight)(uintptr_t begin, uintptr_t end)) {
  auto& all = pages();
  if (all.count.load() == 0) return;
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (auto it = all.ranges.begin(); it != all.ranges.end();)
    it = is_in_flight(it->first, it->second.end) ? std::next(it) : all.unprotect(it);
}

}  // namespace hostdevice
