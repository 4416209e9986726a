// Shared libraries of this process that were compiled for NVIDIA GPUs.
#pragma once

namespace hostdevice {

// Return whether one has been loaded since the last call.
bool gpu_code_was_loaded();

}  // namespace hostdevice
