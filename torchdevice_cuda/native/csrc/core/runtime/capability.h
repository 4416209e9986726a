// The model that the GPU reports, which decides the kernels that it has.
#pragma once

namespace hostdevice {

struct Capability {
  int major, minor, cudnn;
};
// Set before the first operator runs.
extern Capability g_capability;

}  // namespace hostdevice
