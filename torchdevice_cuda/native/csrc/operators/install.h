// The kernels' part of install(). Kernels of an operator's own go in before the boxed one, which leaves them alone.
#pragma once

namespace hostdevice {

// In this order.
void register_direct_kernels();
void register_hot_kernels();
void register_composites();
void register_fft();
void register_bridge();
void register_boxed_kernels();

}  // namespace hostdevice
