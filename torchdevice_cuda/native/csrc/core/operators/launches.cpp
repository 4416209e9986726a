#include "operators/launches.h"

#include <ATen/core/Tensor.h>
#include <ATen/native/ForeachUtils.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "compat.h"
#include "operators/facts.h"

namespace hostdevice {
namespace {

using at::Scalar;
using at::Tensor;
using torch::jit::Stack;

constexpr const char* kMultiTensorApply = "multi_tensor_apply_kernel";

// An argument, or what is computed with it, is of such a type.
constexpr uint8_t kIntegralTypes = 1, kComplexTypes = 2;
// Integers would become floating-point numbers: CUDA looks at the types of scalars and tensors together.
constexpr uint8_t kPromotes = 4;
// A list may have another type than the others.
constexpr uint8_t kConverts = 8;
// Of another order than 1, 2, infinity and maybe 0; or than 1, 2.
constexpr uint8_t kOtherNorms = 16, kOtherSums = 32;
// Nothing does: whoever calls it has sorted the lists.
constexpr uint8_t kNothing = 64;

constexpr ListRow kListRows[] = {
    {"_foreach_abs", kComplexTypes},
    {"_foreach_acos", kIntegralTypes},
    {"_foreach_add"},
    {"_foreach_addcdiv", kIntegralTypes},
    {"_foreach_addcmul", kIntegralTypes},
    {"_foreach_asin", kIntegralTypes},
    {"_foreach_atan", kIntegralTypes},
    {"_foreach_ceil", kIntegralTypes},
    {"_foreach_clamp_max", kPromotes},
    {"_foreach_clamp_min", kPromotes},
    {"_foreach_clone"},
    {"_foreach_copy", kConverts},
    {"_foreach_cos", kIntegralTypes},
    {"_foreach_cosh", kIntegralTypes},
    {"_foreach_div", kPromotes},
    {"_foreach_erf", kIntegralTypes},
    {"_foreach_erfc", kIntegralTypes},
    {"_foreach_exp", kIntegralTypes},
    {"_foreach_expm1", kIntegralTypes},
    {"_foreach_floor", kIntegralTypes},
    {"_foreach_frac", kIntegralTypes},
    {"_foreach_lerp", kPromotes},
    {"_foreach_lgamma", kIntegralTypes},
    {"_foreach_log", kIntegralTypes},
    {"_foreach_log10", kIntegralTypes},
    {"_foreach_log1p", kIntegralTypes},
    {"_foreach_log2", kIntegralTypes},
    {"_foreach_max"},
    {"_foreach_maximum", kPromotes},
    {"_foreach_minimum", kPromotes},
    {"_foreach_mul"},
    {"_foreach_neg"},
    {"_foreach_norm", kIntegralTypes | kComplexTypes | kOtherNorms},
    {"_foreach_pow", kPromotes},
    {"_foreach_powsum", kIntegralTypes | kComplexTypes | kOtherSums},
    {"_foreach_reciprocal", kIntegralTypes},
    {"_foreach_round", kIntegralTypes},
    {"_foreach_rsqrt", kIntegralTypes},
    {"_foreach_sigmoid", kIntegralTypes},
    {"_foreach_sign", kIntegralTypes},
    {"_foreach_sin", kIntegralTypes},
    {"_foreach_sinh", kIntegralTypes},
    {"_foreach_sqrt", kIntegralTypes},
    {"_foreach_sub"},
    {"_foreach_tan", kIntegralTypes},
    {"_foreach_tanh", kIntegralTypes},
    {"_foreach_trunc", kIntegralTypes},
    {"_foreach_zero"},
    {"_fused_adagrad", kNothing},
    {"_fused_adam", kNothing},
    {"_fused_adamw", kNothing},
    {"_fused_sgd", kNothing},
};

// What a call has been given, by kind.
struct ListCall {
  std::vector<std::vector<Tensor>> lists;
  std::vector<Scalar> scalars;
  Tensor one;  // that is added to, or multiplies, each of a list
  bool scalar_first = false;
};
ListCall list_call(const Facts& f, const Stack& stack, size_t base) {
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
      for (const at::IValue& each : v.toList())
        if (each.isScalar()) g.scalars.push_back(each.toScalar());
    }
  }
  return g;
}

bool has_types(const std::vector<Tensor>& list, uint8_t unless) {
  return std::any_of(list.begin(), list.end(), [&](const Tensor& t) {
    const auto type = t.scalar_type();
    return ((unless & kIntegralTypes) && at::isIntegralType(type, true)) ||
        ((unless & kComplexTypes) && at::isComplexType(type));
  });
}

bool is_other_order(const Scalar& ord, uint8_t unless) {
  const double p = ord.toDouble();
  const bool one_or_two = p == 1 || p == 2;
  if (unless & kOtherSums) return !one_or_two;
  return !one_or_two && !(HOSTDEVICE_ZERO_NORM_AT_ONCE && p == 0) && p != std::numeric_limits<double>::infinity();
}

bool takes_at_once(const ListRow& row, ListCall g) {
  const std::vector<Tensor>& first = g.lists.front();
  if (has_types(first, row.unless)) return false;
  if (row.unless & (kOtherNorms | kOtherSums)) {
    // The order is of the result, not of the types.
    if (!g.scalars.empty() && is_other_order(g.scalars.front(), row.unless)) return false;
    g.scalars.clear();
  }
  // A scalar to the power of each: nothing is asked of its type.
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
  if (row.unless & kConverts)
    return at::native::_check_tensors_share_device_and_dtype(lists, true) &&
        at::native::_check_tensors_share_sizes_and_strides(lists);
  const bool promotes = (row.unless & kPromotes) && !g.scalar_first;
  return at::native::can_use_fast_route(lists, g.scalars, promotes);
}

}  // namespace

const ListRow* find_list_row(const std::string& name) {
  for (const auto& row : kListRows)
    if (name == row.name) return &row;
  return nullptr;
}

const char* list_kernel(const ListRow& row, const Facts& f, const Stack& stack, size_t base) {
  ListCall g = list_call(f, stack, base);
  if (g.lists.empty()) return nullptr;
  const auto& first = g.lists.front();
  if (std::all_of(first.begin(), first.end(), [](const Tensor& t) { return t.numel() == 0; })) return nullptr;
  return (row.unless & kNothing) || takes_at_once(row, std::move(g)) ? kMultiTensorApply : nullptr;
}

}  // namespace hostdevice
