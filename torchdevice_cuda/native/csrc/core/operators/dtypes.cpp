#include "operators/dtypes.h"

#include <ATen/core/Tensor.h>

#include "operators/rows.h"
#include "operators/rules.h"

namespace hostdevice {
namespace {

using torch::jit::Stack;

constexpr TakenRow kTakenRows[] = {
#include "contract/taken.inc"
};

}  // namespace

const TakenRow* find_taken_row(std::string_view name) {
  static const auto* rows = new RowsByName<TakenRow>(by_name(kTakenRows));
  return find_row(*rows, name);
}

void check_taken(const TakenRow& row, const Stack& stack, size_t base) {
  if (!stack[base].isTensor() || !stack[base].toTensor().defined()) return;
  const auto type = stack[base].toTensor().scalar_type();
  if (holds(row.taken, type)) return;
  // Of nothing, nothing is computed.
  for (size_t i = base; i < stack.size(); i++)
    if (stack[i].isTensor() && stack[i].toTensor().defined() && stack[i].toTensor().numel() == 0) return;
  if (row.refuse)
    row.refuse(type, stack, base);
  else
    rules::refuse_as(row.kernel, type);
}

}  // namespace hostdevice
