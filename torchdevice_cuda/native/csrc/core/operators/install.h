// The kernels' part of install(). Kernels of an operator's own go in before the boxed one, which leaves them alone.
#pragma once

#include <functional>
#include <string>

namespace hostdevice {

// In this order.
void register_direct_kernels();
void register_hot_kernels();
void register_composites();
void register_fft();
void register_bridge();
void register_boxed_kernels();

// Operators of other libraries that have kernels of CUDA's: they would launch them on the host's memory. From here on
// the CPU's kernel computes, or where there is none the operator is refused by name. `keep` is asked, with
// "namespace/operator/key", about kernels that are to stay.
void take_over_foreign_kernels(const std::function<bool(const std::string&)>& keep);

}  // namespace hostdevice
