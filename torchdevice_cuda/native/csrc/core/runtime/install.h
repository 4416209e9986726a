// Functions that replace parts of PyTorch, and the work before the process ends. operators/install.h installs the
// kernels.
#pragma once

#include <atomic>

namespace hostdevice {

void install_guard();
// Replace the object that getCUDAHooks()/getMPSHooks() returns; return false if that failed. PyTorch has one
// accelerator: another device only computes with the tensors that it gets.
bool install_hooks(bool is_accelerator);

// Set once PyTorch has started autograd threads for the devices.
extern std::atomic<bool> g_autograd_threads;
// Called without the GIL, before the interpreter finalizes.
void prepare_exit() noexcept;

}  // namespace hostdevice
