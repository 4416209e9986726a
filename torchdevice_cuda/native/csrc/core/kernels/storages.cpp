// set_ with a storage, which must be on the tensor's device.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "operators/boxed.h"
#include "operators/composites.h"

namespace hostdevice {
namespace {

// The CPU kernel sees two host storages and would accept one of another device. A storage without memory is allowed,
// because its device is not decided yet.
void set_storage(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const size_t base = stack->size() - op.schema().arguments().size();
  const at::Tensor& self = (*stack)[base].toTensor();
  const c10::IValue& source = (*stack)[base + 1];
  const c10::Storage from = source.isStorage() ? source.toStorage() : source.toTensor().storage();
  TORCH_CHECK(
      from.device() == self.device() || !from.data(), "Attempted to set the storage of a tensor on device \"",
      self.device(), "\" to a storage on different device \"", from.device(),
      "\".  This is no longer allowed; the devices must match.");
  run_on_cpu(op, c10::DispatchKey::CPU, stack);
}

}  // namespace

void register_storages(Registrar& registrar) {
  for (const char* name : {"set_.source_Storage", "set_.source_Storage_storage_offset", "set_.source_Tensor"})
    registrar.impl(name, &set_storage);
}

}  // namespace hostdevice
