// Moves a segment into shared memory when one of its blocks is first sent to another process.
//
// Allocating all memory as shared would make every first touch slower (10 to 25 % if the system has no huge pages, more
// if it has), and a process sends little of its memory. So the segment moves once and keeps its addresses, which then
// lead to the shared memory.
//
// Other threads may compute in the segment meanwhile. It is read-only while it is copied: a thread that writes waits in
// the signal handler of that fault, then repeats the write in the moved segment. A system call that writes into it at
// that moment, such as a read() of a file, fails with EFAULT.
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "runtime/device_memory.h"
#include "runtime/segments.h"

namespace hostdevice {
namespace {

// The signals of a write to read-only memory: Linux's and macOS's.
constexpr std::array<int, 2> kFaults{SIGSEGV, SIGBUS};

std::atomic<int> g_moving{0};                           // segments being moved, of different devices
std::array<struct sigaction, kFaults.size()> g_others;  // the previous handlers
std::atomic<bool> g_passed_on{false};

void on_fault(int signal, siginfo_t* info, void*) {
  // Device memory is always writable except during a move: wait, then repeat the write. The fault may be delivered
  // after the move is over.
  const auto* segment = addresses().find(info->si_addr);
  if (segment && (g_moving.load(std::memory_order_acquire) != 0 || segment->shared_range)) {
    const timespec moment{0, 50'000};
    while (g_moving.load(std::memory_order_acquire) != 0) nanosleep(&moment, nullptr);
    return;
  }
  // Any other fault goes to the previous handler. If that passes the fault back to us, restore the default action.
  if (g_passed_on.exchange(true)) {
    struct sigaction standard{};
    standard.sa_handler = SIG_DFL;
    sigaction(signal, &standard, nullptr);
  } else {
    sigaction(signal, &g_others[signal == kFaults[0] ? 0 : 1], nullptr);
  }
}

// Call before every move: the program may have replaced our handler since.
void handle_faults() {
  for (size_t i = 0; i < kFaults.size(); i++) {
    struct sigaction now{};
    sigaction(kFaults[i], nullptr, &now);
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == &on_fault) continue;
    g_others[i] = now;
    struct sigaction ours{};
    ours.sa_sigaction = &on_fault;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    sigaction(kFaults[i], &ours, nullptr);
  }
}

// Do not write pages of zeros: most of a segment was never written.
void copy_pages(char* to, const char* from, size_t size) {
  static const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (size_t at = 0; at < size; at += page) {
    const size_t n = std::min(page, size - at);
    const char* p = from + at;
    if (*p != 0 || std::memcmp(p, p + 1, n - 1) != 0) std::memcpy(to + at, p, n);
  }
}

}  // namespace

// The lock is held, so that no block is allocated or freed meanwhile.
bool DeviceMemory::move_to_shared(AddressTable::Segment& segment) {
  const auto shared_range = create_shared_range(segment.size);
  if (!shared_range) return false;
  char* const there = map_shared_range(*shared_range);
  if (!there) {
    free_shared_range(*shared_range);
    return false;
  }
  handle_faults();
  g_moving.fetch_add(1);
  bool moved = mprotect(segment.base, segment.size, PROT_READ) == 0;
  if (moved) {
    // Skip free blocks, except in a private pool: replays of a graph write and read them.
    for (const Block* b = segments_.at(segment.base); b != nullptr; b = b->next)
      if (b->mapped && (!b->is_free() || b->pool->owner)) copy_pages(there + (b->ptr - segment.base), b->ptr, b->size);
    moved = map_shared_range(*shared_range, segment.base) != nullptr;
    if (!moved) mprotect(segment.base, segment.size, PROT_READ | PROT_WRITE);
  }
  if (moved) segment.shared_range = new SharedRange(*shared_range);
  g_moving.fetch_sub(1);
  unmap_shared_range(*shared_range, there);
  if (!moved) free_shared_range(*shared_range);
  return moved;
}

std::optional<SharedBlock> DeviceMemory::share(char* address) {
  const Lock lock(mutex_);
  if (!segment_at(address)) return std::nullopt;
  auto& segment = *addresses().find(address);
  const Block* b = addresses().block(address);
  if (!b || b->ptr != address || !b->allocated) return std::nullopt;
  if (!segment.shared_range && !move_to_shared(segment)) throw_no_shared_memory();
  return SharedBlock{*segment.shared_range, static_cast<size_t>(address - segment.base)};
}

}  // namespace hostdevice
