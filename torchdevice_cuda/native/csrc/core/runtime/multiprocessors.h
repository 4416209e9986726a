// How large a GPU this claims to be. What a launch draws depends on it.
#pragma once

#include <cstdint>

namespace hostdevice {

struct Multiprocessors {
  int64_t count, threads;
};

// Set before the first draw, for all devices; an H200's until then.
const Multiprocessors& multiprocessors();
void set_multiprocessors(const Multiprocessors& claimed);

}  // namespace hostdevice
