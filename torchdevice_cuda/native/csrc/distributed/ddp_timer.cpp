// The timer of DistributedDataParallel on the device. PyTorch asserts that CUDA has one, and a CPU build has none. The
// device computes as the CPU does, so the CPU's timer is right for it.
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include <memory>

#include "runtime/device.h"

// Missing if torch was built without torch.distributed.
#pragma weak _ZN4c10d13TimerRegistryEv

namespace hostdevice {

void install_ddp_timer() {
  auto* volatile registry = &c10d::TimerRegistry;  // volatile: a compiler assumes that a function is never null
  if (!kIsCuda || registry == nullptr) return;
  registry()->Register(
      kType, [](c10::Device) { return c10d::TimerRegistry()->Create(c10::DeviceType::CPU, cpu()); },
      c10::REGISTRY_PREFERRED);
}

}  // namespace hostdevice
