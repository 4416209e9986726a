// Device work added up for a report: by operator, and by the program's line that launched it.
//
// A profiler records every activity (activities.h); this only adds, so that its size depends on the number of the
// program's lines, not on the run time. One lock protects all of it. It is held for one addition, and no other lock is
// taken under it. A higher layer, which knows Python, finds the lines.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace hostdevice {

// A line of the program, by the id that `g_find_site` assigned.
using Site = uint32_t;
constexpr Site kNoSite = 0;    // unknown
constexpr Site kBackward = 1;  // the backward pass, without a line of the program
constexpr Site kFirstSite = 2;

// Returns the calling thread's current line. It may take the GIL: never call it under a lock.
extern Site (*g_find_site)();
inline Site find_site() {
  return g_find_site ? g_find_site() : kNoSite;
}

// Protects the state of `g_find_site`. No other lock is taken under it.
std::mutex& site_mutex();

// Identifies the operator that an autograd node belongs to: its thread, and its sequence number there.
struct ForwardNode {
  uint64_t thread = 0, number = 0;
};
// Returns the node that the calling thread's current operator would get.
extern ForwardNode (*g_find_forward_node)();

// A line of the program's source. The file is empty for the sites that are not lines.
struct SourceLine {
  std::string file, function;
  int number;
};
// Set together with `g_find_site`: return the line of a site, and whether the calling thread runs a backward pass.
extern SourceLine (*g_describe_site)(Site site);
extern bool (*g_is_in_backward)();

// The first three are counted by line. A stream that waits for an event, and the launch of a graph, are only part of a
// timeline.
enum class Counted : uint8_t { Kernel, Copy, Wait, StreamWait, Graph };
constexpr size_t kCountedByLine = 3;

// One piece of work or one wait, as it ends.
struct Span {
  Counted kind;
  const std::string* name;
  Site site;
  c10::DeviceIndex device;
  c10::StreamId stream;
  int64_t began_ns, ns;
  int64_t bytes = 0;
  bool of_graph = false;  // a node of a replayed graph
};
// Adds a span to a timeline; null without one. Called under the ledger's lock.
extern void (*g_add_span)(const Span&);
std::unique_lock<std::mutex> lock_ledger();

struct CountedRow {
  Counted kind;
  std::string name;
  Site site;
  uint64_t calls;
  int64_t ns;
  int64_t bytes;
};

// A device's memory over time, in steps of equal length: the maximum in each step, and the value at its end.
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

// Start counting; memory that is already allocated on each device belongs to no line. And stop.
void begin_counting(const std::vector<int64_t>& allocated);
void end_counting();
// Return everything counted so far; with `clear`, start again from there.
Counts read_counts(bool clear);

// Intern a string; the pointer stays valid.
const std::string* intern_name(const std::string& text);
void count_work(const Span& span);
// Count a block that is allocated (positive `bytes`) or freed. `allocated` is the device's total after that. The
// device's lock must be held.
void count_memory(c10::DeviceIndex device, const void* block, int64_t bytes, int64_t allocated);
// Return the bytes that each line holds on a device now.
std::vector<std::pair<Site, int64_t>> list_holders(c10::DeviceIndex device);
// Set the line that the calling thread allocates at. Call it before taking a device's lock.
void set_allocation_site(Site site);

// Remember that the calling thread's current operator is at this line, for its node of the backward pass.
void note_forward(Site site);
// Return the line of the forward pass that a node of the backward pass belongs to; kBackward if it is unknown.
Site site_of_forward(ForwardNode node);

// Lock and unlock for fork(), after every other lock.
void lock_ledger_for_fork();
void unlock_ledger_after_fork();

}  // namespace hostdevice
