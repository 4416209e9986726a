// How DistributedDataParallel times its steps on the device. A CPU build has no clock for CUDA, and PyTorch asserts
// that there is one; the device computes as the CPU does, and the CPU's clock is right for it.
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include <memory>

#include "runtime/device.h"

// Not in a torch that was built without torch.distributed.
#pragma weak _ZN4c10d13TimerRegistryEv

namespace hostdevice {

void install_ddp_timer() {
  auto* volatile registry = &c10d::TimerRegistry;  // which a compiler takes for one that is always there
  if (!kIsCuda || registry == nullptr) return;
  registry()->Register(
      kType, [](c10::Device) { return c10d::TimerRegistry()->Create(c10::DeviceType::CPU, cpu()); },
      c10::REGISTRY_PREFERRED);
}

}  // namespace hostdevice
