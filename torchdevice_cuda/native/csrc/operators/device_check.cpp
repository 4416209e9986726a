#include "operators/device_check.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

#include "operators/refusals.h"

namespace hostdevice {
namespace {

[[noreturn]] void two_devices(c10::Device a, c10::Device b) {
  TORCH_CHECK(
      false, "Expected all tensors to be on the same device, but found at least two devices, ", a, " and ", b, "!");
}

// Nobody compares devices for an Apple GPU. Its kernels take numbers from the CPU, notice most other tensors of the CPU
// when they hand them to Metal, and some hand their memory over without a look.
void check_as_metal(const c10::OperatorHandle& op, const Facts& f, const torch::jit::Stack& stack, size_t base) {
  for (auto i : f.interesting) {
    each_tensor(stack[base + i], f.args[i].kind, [&](const at::Tensor& t) {
      if (t.device().type() == kType || (t.dim() == 0 && !f.args[i].written)) return;
      if (f.iterates) two_devices(device(0), t.device());
      TORCH_CHECK(
          !takes_any_memory(op.schema().name()), op.operator_name(),
          " would crash the process on a Mac: it takes the CPU's memory for the GPU's");
      TORCH_CHECK(false, "Passed CPU tensor to MPS op");
    });
  }
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
  if (!kIsCuda) {
    check_as_metal(op, f, stack, base);
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
