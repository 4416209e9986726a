// Shared libraries of this process that were compiled for NVIDIA's GPUs.
#pragma once

namespace hostdevice {

// Whether one has been loaded since this was last asked.
bool gpu_code_was_loaded();

}  // namespace hostdevice
