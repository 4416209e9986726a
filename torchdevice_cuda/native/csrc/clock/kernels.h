// Kernels of CUDA C++ on a GPU's clock.
#pragma once

namespace hostdevice {

// Whether this thread launches a kernel whose library tells its time (kernel_times.h).
bool is_kernel_timed();
// Export torchdevice_kernel_times(), which these libraries look for.
void publish_kernel_times();

}  // namespace hostdevice
