// What install() puts in place of PyTorch's own, and what has to happen before the process ends. The kernels are in
// operators/install.h.
#pragma once

#include <atomic>

namespace hostdevice {

void install_guard();
// Puts our hooks in place of whatever getCUDAHooks()/getMPSHooks() answers now; false if that could not be done.
bool install_hooks();

// Has PyTorch started autograd threads for the devices?
extern std::atomic<bool> g_autograd_threads;
// Called without the interpreter's lock, before the interpreter ends.
void prepare_exit() noexcept;

}  // namespace hostdevice
