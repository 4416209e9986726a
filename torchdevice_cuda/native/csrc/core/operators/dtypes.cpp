#include "operators/dtypes.h"

#include <ATen/core/Tensor.h>

#include "operators/rules.h"

namespace hostdevice {

void check_dtype(const Row& row, const torch::jit::Stack& stack, size_t base) {
  if (!stack[base].isTensor() || !stack[base].toTensor().defined()) return;
  const auto type = stack[base].toTensor().scalar_type();
  if (holds(row.takes, type)) return;
  // CUDA launches nothing for empty tensors, so it refuses nothing.
  for (size_t i = base; i < stack.size(); i++)
    if (stack[i].isTensor() && stack[i].toTensor().defined() && stack[i].toTensor().numel() == 0) return;
  if (row.refuse)
    row.refuse(type, stack, base);
  else
    rules::refuse_as(row.kernel, type);
}

bool are_mixed(const torch::jit::Stack& stack, size_t base) {
  Types seen = 0;
  for (size_t i = base; i < stack.size(); i++) {
    if (!rules::has(stack, i) || stack[i].toTensor().dim() == 0) continue;
    const auto type = stack[i].toTensor().scalar_type();
    if (holds(kFractions, type)) seen |= types_of(c10::toRealValueType(type));
  }
  return (seen & (seen - 1)) != 0;
}

}  // namespace hostdevice
