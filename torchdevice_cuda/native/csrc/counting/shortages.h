// Allocations that failed because a device's memory was short, for a report.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/ledger.h"
#include "runtime/limits.h"

namespace hostdevice {

struct Shortage {
  OutOfMemoryInfo info;
  Site site;
  int64_t at_ns;
  std::vector<std::pair<Site, int64_t>> holders;  // the lines that held the device's memory then
};

// Store the shortages from now on, up to a number.
void watch_for_shortages();
std::vector<Shortage> read_shortages(bool clear);

}  // namespace hostdevice
