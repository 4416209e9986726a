// The size that the GPU reports. The random numbers of a launch depend on it.
#pragma once

#include <cstdint>

namespace hostdevice {

struct Multiprocessors {
  int64_t count, threads;
};

// Set before the first draw, for all devices; the default is an H200.
const Multiprocessors& multiprocessors();
void set_multiprocessors(const Multiprocessors& claimed);

}  // namespace hostdevice
