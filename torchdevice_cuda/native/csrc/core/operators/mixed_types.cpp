#include "operators/mixed_types.h"

#include <ATen/core/Tensor.h>

#include "operators/rows.h"
#include "operators/rules.h"

namespace hostdevice {
namespace {

using torch::jit::Stack;

constexpr MixedRow kMixedRows[] = {
#include "contract/mixed_types.inc"
};

}  // namespace

const MixedRow* find_mixed_row(std::string_view name) {
  static const auto* rows = new RowsByName<MixedRow>(by_name(kMixedRows));
  return find_row(*rows, name);
}

bool are_mixed(const Stack& stack, size_t base) {
  Types seen = 0;
  for (size_t i = base; i < stack.size(); i++) {
    if (!rules::has(stack, i) || stack[i].toTensor().dim() == 0) continue;
    const auto type = stack[i].toTensor().scalar_type();
    if (holds(kFractions, type)) seen |= types_of(c10::toRealValueType(type));
  }
  return (seen & (seen - 1)) != 0;
}

}  // namespace hostdevice
