// Where the threads of a launch begin to read CUDA's random numbers: the key, and how many words of its own each thread
// has read already. A multiple of four: four words are drawn at a time.
#pragma once

#include <cstdint>

namespace hostdevice {

struct Philox {
  uint64_t seed, offset;
};

}  // namespace hostdevice
