// A segment moves into shared memory when a block of it is first sent to another process.
//
// Sharing all memory from the start would make every first touch slower (10 to 25 % where the system has no huge pages,
// more where it has), and what a process sends is little of what it has. So the segment moves, once, and stays where
// it is: the same addresses lead to the shared memory from then on.
//
// Other threads may be computing in the segment meanwhile. While it is copied it can only be read: who writes waits in
// the handler of that fault, and writes again where the segment then is. A system call that writes into it at that
// moment, such as a read() of a file, fails with EFAULT.
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

// Writing where only reading is allowed: Linux's signal, and macOS's.
constexpr std::array<int, 2> kFaults{SIGSEGV, SIGBUS};

std::atomic<int> g_moving{0};                           // segments, of different devices
std::array<struct sigaction, kFaults.size()> g_others;  // who was told before us
std::atomic<bool> g_passed_on{false};

void on_fault(int signal, siginfo_t* info, void*) {
  // Memory of a device can always be written, but while it moves: the write is tried again. A fault may be told of when
  // the move is over.
  const auto* segment = addresses().find(info->si_addr);
  if (segment && (g_moving.load(std::memory_order_acquire) != 0 || segment->piece)) {
    const timespec moment{0, 50'000};
    while (g_moving.load(std::memory_order_acquire) != 0) nanosleep(&moment, nullptr);
    return;
  }
  // Anything else is what it would be without us. Whoever was told before us may hand it back to us in the end.
  if (g_passed_on.exchange(true)) {
    struct sigaction standard{};
    standard.sa_handler = SIG_DFL;
    sigaction(signal, &standard, nullptr);
  } else {
    sigaction(signal, &g_others[signal == kFaults[0] ? 0 : 1], nullptr);
  }
}

// Called before every move: a program may have put a handler of its own in place of ours since.
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

// Pages of zeros stay untouched: most of a segment has never been written.
void copy_pages(char* to, const char* from, size_t size) {
  static const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (size_t at = 0; at < size; at += page) {
    const size_t n = std::min(page, size - at);
    const char* p = from + at;
    if (*p != 0 || std::memcmp(p, p + 1, n - 1) != 0) std::memcpy(to + at, p, n);
  }
}

}  // namespace

// Called with the lock held: no block changes hands meanwhile.
bool DeviceMemory::move_to_shared(AddressTable::Segment& segment) {
  const auto piece = make_piece(segment.size);
  if (!piece) return false;
  char* const there = map_piece(*piece);
  if (!there) {
    drop_piece(*piece);
    return false;
  }
  handle_faults();
  g_moving.fetch_add(1);
  bool moved = mprotect(segment.base, segment.size, PROT_READ) == 0;
  if (moved) {
    // What is in free blocks is nobody's, but in a graph's pool: a replay writes and reads there.
    for (const Block* b = segments_.at(segment.base); b != nullptr; b = b->next)
      if (b->mapped && (!b->is_free() || b->pool->owner)) copy_pages(there + (b->ptr - segment.base), b->ptr, b->size);
    moved = map_piece(*piece, segment.base) != nullptr;
    if (!moved) mprotect(segment.base, segment.size, PROT_READ | PROT_WRITE);
  }
  if (moved) segment.piece = new Piece(*piece);
  g_moving.fetch_sub(1);
  unmap_piece(*piece, there);
  if (!moved) drop_piece(*piece);
  return moved;
}

std::optional<SharedBlock> DeviceMemory::share(char* address) {
  const Lock lock(mutex_);
  if (!segment_at(address)) return std::nullopt;
  auto& segment = *addresses().find(address);
  const Block* b = addresses().block(address);
  if (!b || b->ptr != address || !b->allocated) return std::nullopt;
  if (!segment.piece && !move_to_shared(segment)) throw_no_shared_memory();
  return SharedBlock{*segment.piece, static_cast<size_t>(address - segment.base)};
}

}  // namespace hostdevice
