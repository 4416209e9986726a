// The calls that the detector sees: operators on the device, and operators of the host on pinned memory.
#pragma once

namespace hostdevice {

// Intercept all calls from now on.
void intercept_calls();
// Observe the host's operators from now on.
void observe_host_operators();

}  // namespace hostdevice
