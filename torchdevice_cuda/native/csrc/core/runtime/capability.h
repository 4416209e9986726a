// What the GPU claims to be: which kernels it has depends on that.
#pragma once

namespace hostdevice {

struct Capability {
  int major, minor, cudnn;
};
// Set before the device computes.
extern Capability g_capability;

}  // namespace hostdevice
