// What the device did, added up for a report: by operator and by the line of the program that asked for it.
//
// Where a profiler writes down every activity (activities.h), this only adds: its size depends on the program's lines
// and not on how long it runs. One lock protects all of it, which is held for an addition, and nothing is locked under
// it. Lines are the business of what knows Python, which stands above this.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace hostdevice {

// A line of the program, by the number that `g_find_site` gave it.
using Site = uint32_t;
constexpr Site kNoSite = 0;    // nobody knows
constexpr Site kBackward = 1;  // of the backward pass, and no line of the program's
constexpr Site kFirstSite = 2;

// The line that the calling thread is at. It may need the interpreter: never called under a lock.
extern Site (*g_find_site)();
inline Site site_now() {
  return g_find_site ? g_find_site() : kNoSite;
}

// Protects what `g_find_site` knows. Nothing is locked under it.
std::mutex& site_mutex();

// Which operator an autograd node goes back to: its thread and its number there.
struct Forward {
  uint64_t thread = 0, number = 0;
};
// Of what the calling thread does now, were it to be differentiated.
extern Forward (*g_forward_now)();

enum class Counted : uint8_t { Kernel, Copy, Wait };

struct CountedRow {
  Counted kind;
  std::string name;
  Site site;
  uint64_t calls;
  int64_t ns;
  int64_t bytes;
};

// The memory of a device over time, in steps of one length: the most in each, and what was left.
struct MemoryStep {
  int64_t since_ns, most, last;
};

struct CountedMemory {
  c10::DeviceIndex device;
  int64_t peak, peak_ns, now;
  std::vector<std::pair<Site, int64_t>> held_at_peak;
  std::vector<MemoryStep> steps;
};

struct Counts {
  std::vector<CountedRow> rows;
  std::vector<CountedMemory> memory;
};

// Begin: what is allocated on each device already is nobody's. And end.
void begin_counting(const std::vector<int64_t>& allocated);
void end_counting();
// Everything so far; and, if asked to, begin again with it.
Counts read_counts(bool clear);

// The same text, for good.
const std::string* named(const std::string& text);
void count_work(Counted kind, const std::string* name, Site site, int64_t ns, int64_t bytes);
// A block that is handed out (positive) or taken back, and all that is handed out then. Under the device's lock.
void count_memory(c10::DeviceIndex device, const void* block, int64_t bytes, int64_t allocated);
// The line that the calling thread allocates at; to be said before a device's lock is taken.
void allocating_at(Site site);

// The line of the forward pass that a node of the backward pass belongs to; kBackward if that is not known.
Site site_of_forward(Forward node);

// Across fork(), after every other lock.
void lock_ledger_for_fork();
void unlock_ledger_after_fork();

}  // namespace hostdevice
