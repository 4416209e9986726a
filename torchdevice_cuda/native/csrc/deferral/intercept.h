// Calls of operators as deferred work, where CUDA would return before they have run.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace hostdevice {

// Defer work from now on, in an order chosen by the seed.
void start_deferral(uint64_t seed);
// Run all work; later work runs when it is issued.
void stop_deferral();

// How the calls of an operator ran since the start.
struct DeferralCounts {
  uint64_t deferred = 0;
  uint64_t at_once = 0;  // since the host or shapes depend on elements, or nothing is known of the results
  uint64_t relaid = 0;   // with results that are laid out otherwise than inferred
};
std::map<std::string, DeferralCounts> read_deferral_counts();

}  // namespace hostdevice
