// What the machine has left. A virtual GPU's memory is the machine's, which ends a process that takes too much of it
// without a word; so every segment asks here first, and a program gets CUDA's error instead.
//
// Segments cost nothing until they are touched. What was promised and not yet touched counts as taken, since it can be
// touched at any time. Looking is not free, so a look is good for a while: half of what it found, a GiB at most.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace hostdevice {

// A control group of this process that limits its memory: how much, and the files that say what is used (a number)
// and what of that could be dropped (lines of names and numbers).
struct HostGroup {
  size_t limit = 0;
  std::string usage, statistics;
};
// What to look at besides the machine itself.
void watch_host(std::vector<HostGroup> groups);

// Whether so much more can be promised.
bool host_gives(size_t size);
// What can be promised now.
size_t host_left();

// Memory that was promised, from here on; and that went back.
void promise(char* start, size_t size);
void take_back(char* start, size_t size);

}  // namespace hostdevice
