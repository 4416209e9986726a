#include "operators/widening.h"

#include <ATen/native/TypeProperties.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "operators/dtypes.h"
#include "runtime/allocator.h"

namespace hostdevice {
namespace {

using at::ScalarType;
using at::Tensor;

constexpr const char* kFamilies[] = {
    "product", "convolution", "convolution_gradient", "attention", "attention_gradient"};
constexpr size_t kMeasured = std::size(kFamilies);

std::array<std::atomic<Types>, kMeasured>& fast_types() {
  static std::array<std::atomic<Types>, kMeasured> types{};
  return types;
}

ScalarType get_wide_type(ScalarType type) {
  if (type == ScalarType::ComplexHalf) return ScalarType::ComplexFloat;
  if (type == ScalarType::Bool) return ScalarType::Byte;
  return at::isIntegralType(type, false) ? ScalarType::Double : ScalarType::Float;
}

// Whether the narrow type represents the value that CUDA computes with; never for complex scalars.
bool is_exact(const c10::Scalar& number, ScalarType narrow) {
  if (number.isSymbolic()) return true;
  if (number.isComplex()) return false;
  const auto given = static_cast<double>(static_cast<float>(number.to<double>()));
  return round_scalar(number, narrow) == given || given != given;
}

// Whether all scalars of an argument are exact: a scalar, a list of scalars, or a CPU scalar tensor beside GPU tensors.
bool are_exact(const c10::IValue& v, ScalarType narrow) {
  if (v.isScalar()) return is_exact(v.toScalar(), narrow);
  if (v.isTensor()) {
    const Tensor& t = v.toTensor();
    return !t.defined() || t.dim() != 0 || !t.device().is_cpu() || is_exact(get_scalar(t), narrow);
  }
  if (!v.isList() || v.isTensorList()) return true;
  for (const c10::IValue& one : v.toListRef())
    if (!are_exact(one, narrow)) return false;
  return true;
}

bool is_complex_number(const c10::IValue& v) {
  return v.isComplexDouble() ||
      (v.isTensor() && v.toTensor().defined() && v.toTensor().dim() == 0 && v.toTensor().is_complex());
}

// Return a result's type for narrow arguments: real parts of complex numbers are real, spectra are complex.
ScalarType get_narrow_type(ScalarType made, ScalarType narrow) {
  if (made == get_wide_type(narrow)) return narrow;
  if (made == ScalarType::Float && narrow == ScalarType::ComplexHalf) return ScalarType::Half;
  if (made == ScalarType::ComplexFloat && narrow == ScalarType::Half) return ScalarType::ComplexHalf;
  return made;
}

// Return the type that torch promotes the inputs to; none if all are integers, which do not count beside floating
// point. Undefined if a list or an output has another type: the CPU kernel then converts as CUDA's does.
std::optional<ScalarType> promote(const torch::jit::Stack& stack, size_t base, size_t inputs) {
  at::native::ResultTypeState state;
  Types seen = 0, in_lists = 0;
  for (size_t i = base; i < base + inputs; i++) {
    const c10::IValue& v = stack[i];
    if (v.isTensor() && v.toTensor().defined() && holds(kFractions, v.toTensor().scalar_type())) {
      seen |= types_of(v.toTensor().scalar_type());
      state = at::native::update_result_type_state(v.toTensor(), state);
    } else if (v.isTensorList()) {
      for (const Tensor& t : v.toTensorVector()) {
        if (!t.defined() || !holds(kFractions, t.scalar_type())) continue;
        in_lists |= types_of(t.scalar_type());
        state = at::native::update_result_type_state(t, state);
      }
    }
  }
  seen |= in_lists;
  if (!seen) return std::nullopt;
  if (in_lists && (seen & (seen - 1)) != 0) return ScalarType::Undefined;
  const auto type = at::native::result_type(state);
  for (size_t i = base + inputs; i < stack.size(); i++)
    if (stack[i].isTensor() && stack[i].toTensor().defined() && stack[i].toTensor().scalar_type() != type)
      return ScalarType::Undefined;
  return type;
}

}  // namespace

double round_scalar(const c10::Scalar& number, ScalarType narrow) {
  const auto wide = static_cast<float>(number.to<double>());
  return narrow == ScalarType::Half ? static_cast<float>(c10::Half(wide)) : static_cast<float>(c10::BFloat16(wide));
}

Types find_widened_types(const WidenedTypes& wide) {
  return wide.family >= Family::Mixed ? wide.types
                                      : wide.types & ~fast_types()[static_cast<size_t>(wide.family)].load();
}

void keep_narrow(const std::string& family, const std::string& type) {
  for (size_t i = 0; i < kMeasured; i++) {
    if (family != kFamilies[i]) continue;
    TORCH_CHECK(type == "float16" || type == "bfloat16", "not a type that is widened: ", type);
    fast_types()[i] |= types_of(type == "float16" ? ScalarType::Half : ScalarType::BFloat16);
    return;
  }
  TORCH_CHECK(false, "no such family of operators: ", family);
}

bool Widening::examine_scalars(torch::jit::Stack& stack, size_t base, size_t inputs) {
  constexpr size_t kExamined = 3;  // two arguments and a factor
  const size_t count = std::min(stack.size() - base, kExamined);
  const auto narrow = promote(stack, base, inputs).value_or(ScalarType::Undefined);
  if (!holds(types_, narrow)) return false;
  narrow_ = narrow;
  if (narrow == ScalarType::ComplexHalf) return true;
  const bool swapped = (row_.weight & kSwapped) != 0 && count > 1 && stack[base + 1].isScalar();
  bool wider = swapped && !are_exact(stack[base + 1], narrow), dimensioned = false;
  for (size_t i = 0; i < count; i++) {
    const c10::IValue& v = stack[base + i];
    wider = wider || is_complex_number(v) || ((row_.weight >> i & 1) != 0 && !are_exact(v, narrow));
    dimensioned = dimensioned || (v.isTensor() && v.toTensor().defined() && v.toTensor().dim() != 0);
  }
  // CUDA treats a single element on the GPU as an element, not as a scalar, and rounds it when it is read.
  const bool by_both = (row_.weight & kByBoth) != 0;
  for (size_t i = 0; i < count && dimensioned; i++) {
    c10::IValue& v = stack[base + i];
    if (by_both && v.isScalar() && !v.toScalar().isComplex()) v = at::Scalar(round_scalar(v.toScalar(), narrow));
    if (!v.isTensor() || !v.toTensor().defined()) continue;
    const Tensor& t = v.toTensor();
    const bool rounded = by_both || !t.device().is_cpu();
    if (t.dim() == 0 && rounded && t.is_floating_point() && t.scalar_type() != narrow) v = t.to(narrow);
  }
  if (wider) sum_ = find_scalar_sum(op_, types_, stack, base);
  return wider || by_both;
}

bool Widening::compute_in_one_pass(bool fresh, torch::jit::Stack& stack, size_t base) const {
  if (sum_.has_value()) add_scalar(*sum_, fresh, stack, base);
  return sum_.has_value();
}

bool Widening::examine(torch::jit::Stack& stack, size_t base, size_t inputs, const std::vector<uint16_t>& dtypes) {
  if (row_.family == Family::Numbers) return examine_scalars(stack, base, inputs);
  if (!row_.mixes()) {
    if (const auto type = promote(stack, base, inputs)) {
      if (!holds(types_, *type)) return false;
      narrow_ = *type;
    }
  }
  for (const auto i : dtypes) {
    auto& v = stack[base + i];
    if (!v.isInt()) continue;
    if (!holds(types_, static_cast<ScalarType>(v.toInt()))) {
      // The CPU kernel converts the argument before it computes.
      if (row_.family == Family::Always) return false;
      continue;
    }
    narrow_ = static_cast<ScalarType>(v.toInt());
    v = static_cast<int64_t>(get_wide_type(narrow_));
  }
  if (row_.results && row_.results[0] == 'f') {
    keeps_wide_ = stack[base + 2].toBool();
    stack[base + 2] = false;
  }
  if (row_.family == Family::Mixed) {
    const auto first = stack[base].toTensorList();
    return !first.empty() && first.get(0).scalar_type() == ScalarType::Float;
  }
  if (row_.family == Family::Parameters) {
    const auto& weight = stack[base + row_.weight];
    keeps_data_narrow_ =
        weight.isTensor() && weight.toTensor().defined() && holds(types_, weight.toTensor().scalar_type());
  }
  // A crossing is widened only if one side is wide.
  return row_.family != Family::Crossing || keeps_wide_ || narrow_ != ScalarType::Undefined;
}

Tensor Widening::argument(const Tensor& alias, bool written, size_t position) {
  if (!alias.defined() || sum_.has_value()) return alias;
  const auto type = alias.scalar_type();
  if (argument_types_.size() <= position) argument_types_.resize(position + 1, ScalarType::Undefined);
  argument_types_[position] = type;
  // Integers after the first argument are indices.
  if (!holds(types_, type) || (at::isIntegralType(type, true) && position != 0 && !written)) return alias;
  if (narrow_ == ScalarType::Undefined) narrow_ = type;
  if (keeps_data_narrow_ && position < row_.weight) return alias;
  for (auto& copy : copies_) {
    if (!copy.narrow.is_same(alias)) continue;
    copy.written = copy.written || written;
    return copy.wide;
  }
  const AllocateOnDevice here(index_);
  copies_.push_back({alias, alias.to(get_wide_type(type)), written});
  return copies_.back().wide;
}

void Widening::write_back() {
  const AllocateOnDevice here(index_);
  for (auto& copy : copies_) {
    if (!copy.written) continue;
    if (copy.narrow.sizes() != copy.wide.sizes()) copy.narrow.resize_(copy.wide.sizes());
    copy.narrow.copy_(copy.wide);
  }
}

Tensor Widening::result(Tensor made, size_t position) {
  if (!made.defined()) return made;
  for (const auto& copy : copies_)
    if (copy.wide.is_same(made)) return copy.narrow;
  const char rule = row_.results && position < std::strlen(row_.results) ? row_.results[position] : 'n';
  if (rule == 'w' || (rule == 'f' && keeps_wide_)) return made;
  auto type = narrow_;
  if (rule >= '0' && rule <= '9') {
    const size_t i = static_cast<size_t>(rule - '0');
    // An argument that was not given has a gradient of the input's type, if any.
    if (i < argument_types_.size() && argument_types_[i] != ScalarType::Undefined) type = argument_types_[i];
  }
  if (type == ScalarType::Undefined) return made;
  const AllocateOnDevice here(index_);
  return made.to(get_narrow_type(made.scalar_type(), type));
}

}  // namespace hostdevice
