#include "operators/device_check.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

namespace hostdevice {
namespace {

[[noreturn]] void two_devices(c10::Device a, c10::Device b) {
  TORCH_CHECK(
      false, "Expected all tensors to be on the same device, but found at least two devices, ", a, " and ", b, "!");
}

}  // namespace

void check_devices(const c10::OperatorHandle& op, const Facts& f, const torch::jit::Stack& stack, size_t base) {
  if (f.mixes) return;
  const auto& arguments = op.schema().arguments();
  if (f.indexing) {
    const c10::Device self = stack[base].toTensor().device();
    for (auto i : f.interesting) {
      if (f.args[i].kind != Kind::OptionalTensorList) continue;
      each_tensor(stack[base + i], f.args[i].kind, [&](const at::Tensor& t) {
        TORCH_CHECK(
            t.device().is_cpu() || t.device() == self,
            "indices should be either on cpu or on the same device as the indexed tensor (", self, ")");
      });
    }
    for (auto i : f.interesting) {
      if (f.args[i].kind != Kind::Tensor) continue;
      each_tensor(stack[base + i], Kind::Tensor, [&](const at::Tensor& t) {
        if (t.device() != self && !(t.device().is_cpu() && t.dim() == 0)) two_devices(self, t.device());
      });
    }
    return;
  }
  if (f.device_check) {
    std::optional<c10::Device> common;
    for (auto i : f.check_order) {
      each_tensor(stack[base + i], f.args[i].kind, [&](const at::Tensor& t) {
        if (!common) {
          common = t.device();
          return;
        }
        TORCH_CHECK(
            t.device() == *common, "Expected all tensors to be on the same device, but got ", arguments[i].name(),
            " is on ", t.device(), ", different from other tensors on ", *common, " (when checking argument in method ",
            f.method, ")");
      });
    }
    return;
  }
  std::optional<c10::Device> common;
  for (auto i : f.interesting) {
    each_tensor(stack[base + i], f.args[i].kind, [&](const at::Tensor& t) {
      if (!common && !t.device().is_cpu()) common = t.device();
    });
  }
  if (!common) return;
  for (auto i : f.interesting) {
    each_tensor(stack[base + i], f.args[i].kind, [&](const at::Tensor& t) {
      if (t.device() == *common) return;
      const bool scalar = t.device().is_cpu() && t.dim() == 0 && !f.args[i].written;
      if (!scalar) two_devices(*common, t.device());
    });
  }
}

}  // namespace hostdevice
