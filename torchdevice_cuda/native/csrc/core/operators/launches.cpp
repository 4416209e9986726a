#include "operators/launches.h"

#include <ATen/core/Tensor.h>
#include <ATen/native/ForeachUtils.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "compat.h"
#include "operators/operator_info.h"

namespace hostdevice {
namespace {

using at::Scalar;
using at::Tensor;
using torch::jit::Stack;

constexpr const char* kMultiTensorApply = "multi_tensor_apply_kernel";

// The arguments of a call, by kind.
struct ListCall {
  std::vector<std::vector<Tensor>> lists;
  std::vector<Scalar> scalars;
  Tensor one;  // added to, or multiplied with, each tensor of a list
  bool scalar_first = false;
};
ListCall parse_list_call(const OperatorInfo& f, const Stack& stack, size_t base) {
  ListCall g;
  for (size_t i = 0; i < f.args.size(); i++) {
    const auto& v = stack[base + i];
    if (f.args[i].kind == Kind::TensorList && v.isTensorList()) {
      const auto list = v.toTensorList();
      if (list.empty()) continue;
      g.lists.emplace_back(list.begin(), list.end());
    } else if (v.isTensor() && v.toTensor().defined()) {
      g.one = v.toTensor();
    } else if (v.isScalar()) {
      g.scalar_first = g.scalar_first || i == 0;
      g.scalars.push_back(v.toScalar());
    } else if (v.isList()) {
      for (const at::IValue& each : v.toListRef())
        if (each.isScalar()) g.scalars.push_back(each.toScalar());
    }
  }
  return g;
}

bool has_types(const std::vector<Tensor>& list, uint8_t unless) {
  return std::any_of(list.begin(), list.end(), [&](const Tensor& t) {
    const auto type = t.scalar_type();
    return ((unless & kUnlessIntegral) && at::isIntegralType(type, true)) ||
        ((unless & kUnlessComplex) && at::isComplexType(type));
  });
}

bool is_other_order(const Scalar& ord, uint8_t unless) {
  const double p = ord.toDouble();
  const bool one_or_two = p == 1 || p == 2;
  if (unless & kUnlessOtherSums) return !one_or_two;
  return !one_or_two && !(HOSTDEVICE_ZERO_NORM_AT_ONCE && p == 0) && p != std::numeric_limits<double>::infinity();
}

bool takes_at_once(uint8_t unless, ListCall g) {
  const std::vector<Tensor>& first = g.lists.front();
  if (has_types(first, unless)) return false;
  if (unless & (kUnlessOtherNorms | kUnlessOtherSums)) {
    // The scalar is the order of the norm, which takes no part in type promotion.
    if (!g.scalars.empty() && is_other_order(g.scalars.front(), unless)) return false;
    g.scalars.clear();
  }
  // A scalar to the power of each tensor: CUDA does not check the scalar's type.
  if (g.scalar_first) g.scalars.clear();
  if (g.one.defined()) {
    if (g.one.device().is_cpu() && g.one.numel() == 1)
      g.scalars.push_back(g.one.item());
    else if (g.one.numel() == 1 && g.one.scalar_type() != first.front().scalar_type())
      return false;
  }
  const std::vector<at::TensorList> lists(g.lists.begin(), g.lists.end());
  for (const auto& list : lists)
    if (list.size() != first.size()) return false;
  if (unless & kUnlessConverts)
    return at::native::_check_tensors_share_device_and_dtype(lists, true) &&
        at::native::_check_tensors_share_sizes_and_strides(lists);
  const bool promotes = (unless & kUnlessPromotes) && !g.scalar_first;
  return at::native::can_use_fast_route(lists, g.scalars, promotes);
}

}  // namespace

const char* list_kernel(const OperatorInfo& f, const Stack& stack, size_t base) {
  ListCall g = parse_list_call(f, stack, base);
  if (g.lists.empty()) return nullptr;
  const auto& first = g.lists.front();
  if (std::all_of(first.begin(), first.end(), [](const Tensor& t) { return t.numel() == 0; })) return nullptr;
  const uint8_t kind = f.row->list_kernel;
  return (kind & kTakesAnyLists) || takes_at_once(kind, std::move(g)) ? kMultiTensorApply : nullptr;
}

}  // namespace hostdevice
