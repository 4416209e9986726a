// The end of the process.
//
// backward() returns as soon as the gradients are there, while the device's autograd thread is still letting go of the
// graph, Python objects included. If the interpreter ends just then, the thread asks for an interpreter lock that it
// will never get, and the process aborts. The thread works in order: once it has done something more for us, it has let
// go of everything before.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>

#include "runtime/device.h"
#include "runtime/install.h"

namespace hostdevice {

std::atomic<bool> g_autograd_threads{false};

void drain_autograd() noexcept {
  if (!g_autograd_threads.load() || g_bad_fork) return;
  for (int i = 0; i < device_count(); i++) {
    try {
      // No Python object anywhere in this graph, so nothing to wait for in turn.
      const at::AutoGradMode grad(true);
      const auto options = at::TensorOptions().dtype(at::kFloat).device(device(static_cast<c10::DeviceIndex>(i)));
      at::Tensor leaf = at::ones({1}, options);
      leaf.set_requires_grad(true);
      leaf.neg().backward();
    } catch (...) {
      // A device without a byte left: nothing can be done at this point, and nothing has to be said.
    }
  }
}

}  // namespace hostdevice
