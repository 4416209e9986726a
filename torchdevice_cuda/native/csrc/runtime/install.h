// The steps of install(), each in the file that holds what it installs.
#pragma once

#include <atomic>

namespace hostdevice {

void install_guard();
// Puts our hooks in place of whatever getCUDAHooks()/getMPSHooks() answers now; false if that could not be done.
bool install_hooks();
// Kernels that are not the boxed one. They go in before it, which then leaves their operators alone.
void register_direct_kernels();
void register_hot_kernels();
void register_composites();
void register_fft();
void register_bridge();
void register_boxed_kernels();

// Has PyTorch started autograd threads for the devices?
extern std::atomic<bool> g_autograd_threads;
// Waits until they have let go of every graph; without the interpreter's lock, before the interpreter ends.
void drain_autograd() noexcept;

}  // namespace hostdevice
