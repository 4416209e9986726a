// The memory that the machine has left. A virtual GPU's memory is the machine's, and the system kills a process that
// uses too much of it without a message. So every segment checks here first, and the program gets CUDA's error instead.
//
// Segments cost nothing until they are touched. Memory that was reserved but not yet touched counts as used, because
// the program can touch it at any time. A check is expensive, so half of what it found, at most a GiB, is
// reserved without another check.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

namespace hostdevice {

// A control group that limits the memory of this process: the limit, the file with the used bytes (a number), and the
// file that lists how many of them are reclaimable (lines of names and numbers).
struct HostGroup {
  size_t limit = 0;
  std::string usage, statistics;
};
// Set the control groups to check in addition to the machine itself.
void set_control_groups(std::vector<HostGroup> groups);

// Return whether so many more bytes can be reserved.
bool can_reserve_host(size_t size);
// Return how many bytes can be reserved now.
size_t host_left();

// Whether large device memory is only promised: a part sees to it that nobody writes it, so the machine need not have
// it.
extern std::atomic<bool> g_only_promises;
// Larger storages are then not computed.
constexpr size_t kMostComputed = size_t{64} << 10;
inline bool is_only_promised(size_t bytes) {
  return bytes > kMostComputed && g_only_promises.load(std::memory_order_relaxed);
}

// Record memory as reserved; and record that it was freed.
void record_reserved(char* start, size_t size);
void record_released(char* start, size_t size);

}  // namespace hostdevice
