// The position where the threads of a launch start to read CUDA's random numbers: the key, and how many words each
// thread has already read. The offset is a multiple of four, because four words are drawn at a time.
#pragma once

#include <cstdint>

namespace hostdevice {

struct Philox {
  uint64_t seed, offset;
};

}  // namespace hostdevice
