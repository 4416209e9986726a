// Registration of kernels, called by install(). Dedicated kernels come before the boxed kernel, which skips their
// operators.
#pragma once

#include <functional>
#include <string>

namespace hostdevice {

// Call in this order.
void register_direct_kernels();
void register_hot_kernels();
void register_composites();
void register_fft();
void register_bridge();
void register_boxed_kernels();

// Replace the CUDA kernels of other libraries, which would launch on host memory: from now on the CPU kernel computes,
// or the operator is refused by name if there is none. `keep` returns whether a kernel, named "namespace/operator/key",
// stays.
void take_over_foreign_kernels(const std::function<bool(const std::string&)>& keep);

}  // namespace hostdevice
