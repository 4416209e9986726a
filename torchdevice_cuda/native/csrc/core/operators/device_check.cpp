#include "operators/device_check.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>

#include "operators/boxed.h"
#include "operators/recorded.h"
#include "operators/refusals.h"
#include "operators/registration.h"

namespace hostdevice {
namespace {

[[noreturn]] void throw_two_devices(c10::Device a, c10::Device b) {
  TORCH_CHECK(
      false, "Expected all tensors to be on the same device, but found at least two devices, ", a, " and ", b, "!");
}

// PyTorch does not compare devices for MPS. Its kernels take CPU scalars, detect most other CPU tensors when they pass
// them to Metal, and some pass CPU memory without a check.
void check_as_metal(const c10::OperatorHandle& op, const OperatorInfo& f, const torch::jit::Stack& stack, size_t base) {
  for (auto i : f.interesting) {
    each_tensor(stack[base + i], f.args[i].kind, [&](const at::Tensor& t) {
      if (t.device().type() == kType || (t.dim() == 0 && !f.args[i].written)) return;
      if (f.iterates) throw_two_devices(device(0), t.device());
      TORCH_CHECK(
          !f.row->is(kTakesAnyMemory), op.operator_name(),
          " would crash the process on a Mac: it takes the CPU's memory for the GPU's");
      TORCH_CHECK(false, "Passed CPU tensor to MPS op");
    });
  }
}

// Kernels of three tensors take a CPU scalar only at some positions. `message` is the message for the position; null:
// the message for tensors on two devices.
struct RefusedScalar {
  const char* name;
  size_t position;
  const char* message;
};
constexpr RefusedScalar kRefusedScalars[] = {
#include "contract/refuses_cpu_number.inc"
};

// Return the name of CUDA's wrapper for sparse tensors, as in error messages.
std::string sparse_method(const c10::OperatorHandle& op) {
  return "wrapper_SparseCUDA_" + op.schema().overload_name() + "_" + aten_name(op.schema().name(), "");
}

void check_cpu_scalars(const OperatorInfo& f, const torch::jit::Stack& stack, size_t base) {
  size_t scalars = 0, read = 0;
  const RefusedScalar* refused = nullptr;
  std::optional<c10::Device> common;
  for (auto i : f.interesting) {
    each_tensor(stack[base + i], f.args[i].kind, [&](const at::Tensor& t) {
      if (!f.args[i].written) read++;
      if (!t.device().is_cpu()) {
        common = t.device();
        return;
      }
      scalars++;
      for (const auto& row : kRefusedScalars)
        if (f.name == row.name && i == row.position) refused = &row;
    });
  }
  // A kernel takes one CPU scalar; another tensor must be on the GPU, if only an output.
  const bool too_many = scalars > 1 && (refused ? refused->message != nullptr : f.iterates && scalars == read);
  TORCH_CHECK(!too_many, "Trying to pass too many CPU scalars to non-CPU kernel!");
  if (!refused) return;
  if (!refused->message) throw_two_devices(*common, c10::Device(c10::kCPU));
  TORCH_CHECK(false, refused->message);
}

}  // namespace

void check_devices(
    const c10::OperatorHandle& op, const OperatorInfo& f, const torch::jit::Stack& stack, size_t base, bool sparse) {
  if (f.mixes_devices) return;
  const auto& arguments = op.schema().arguments();
  if (f.is_indexing) {
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
        if (t.device() != self && !(t.device().is_cpu() && t.dim() == 0)) throw_two_devices(self, t.device());
      });
    }
    return;
  }
  if (!kIsCuda) {
    check_as_metal(op, f, stack, base);
    return;
  }
  if (f.row->compare) f.row->compare(stack, base);
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
            sparse || f.name.rfind("_sparse_coo_tensor_with_dims", 0) == 0 ? sparse_method(op) : f.method, ")");
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
      if (!scalar) throw_two_devices(*common, t.device());
    });
  }
  check_cpu_scalars(f, stack, base);
}

void compare_devices(const c10::OperatorHandle& op, const torch::jit::Stack& arguments) {
  check_devices(op, get_operator_info(op), arguments, 0, false);
}

}  // namespace hostdevice
