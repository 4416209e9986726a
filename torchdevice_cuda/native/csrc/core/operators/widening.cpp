#include "operators/widening.h"

#include <ATen/native/TypeProperties.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string_view>

#include "operators/mixed_types.h"
#include "operators/rows.h"
#include "runtime/allocator.h"

namespace hostdevice {
namespace {

using at::ScalarType;
using at::Tensor;

constexpr const char* kFamilies[] = {
    "product", "convolution", "convolution_gradient", "attention", "attention_gradient"};
constexpr size_t kMeasured = std::size(kFamilies);

constexpr Types kHalf = types_of(ScalarType::Half);
// Of eight bits.
constexpr Types kEighths = types_of(ScalarType::Float8_e4m3fn, ScalarType::Float8_e5m2);

// ---- the table ----------------------------------------------------------------------------------------------------

constexpr WideRow kWideRows[] = {
    {"mm", Family::Product, kHalves, nullptr},
    {"bmm", Family::Product, kHalves, nullptr},
    {"addmm", Family::Product, kHalves, nullptr},
    {"baddbmm", Family::Product, kHalves, nullptr},
    {"addbmm", Family::Product, kHalves, nullptr},
    {"addmv", Family::Product, kHalves, nullptr},
    {"mv", Family::Product, kHalves, nullptr},
    {"dot", Family::Product, kHalves, nullptr},
    {"_addmm_activation", Family::Product, kHalves, nullptr},
    {"_trilinear", Family::Product, kHalves, nullptr},

    {"convolution", Family::Convolution, kHalves, nullptr},
    {"_convolution", Family::Convolution, kHalves, nullptr},
    {"convolution_overrideable", Family::Convolution, kHalves, nullptr},
    {"convolution_backward", Family::ConvolutionGradient, kHalves, nullptr},
    {"convolution_backward_overrideable", Family::ConvolutionGradient, kHalves, nullptr},

    // Whatever the processor: their products of half precision were seen to give garbage where it is quick with it.
    {"slow_conv3d_forward", Family::Always, kHalves, nullptr},
    {"slow_conv_transpose2d", Family::Always, kHalves, nullptr},
    {"slow_conv_transpose3d", Family::Always, kHalves, nullptr},
    {"slow_conv_dilated2d", Family::Always, kHalves, nullptr},
    {"slow_conv_dilated3d", Family::Always, kHalves, nullptr},
    {"_slow_conv2d_forward", Family::Always, kHalves, nullptr},
    {"_slow_conv2d_backward", Family::Always, kHalves, nullptr},

    {"_scaled_dot_product_flash_attention_for_cpu", Family::Attention, kHalves, "nw"},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", Family::AttentionGradient, kHalves, nullptr},

    // A number of the program's stays what it is, whatever it is added to.
    {"add", Family::Numbers, kHalves, nullptr, kFirst | kSecond | kFactor},
    {"sub", Family::Numbers, kHalves, nullptr, kFirst | kSecond | kFactor},
    {"rsub", Family::Numbers, kHalves, nullptr, kSecond | kFactor},
    {"mul", Family::Numbers, kHalves, nullptr, kFirst | kSwapped},
    {"xlogy", Family::Numbers, kHalves, nullptr, kByBoth},
    {"div", Family::Numbers, kHalves | kComplexHalf, nullptr, kNowhere},
    {"floor_divide", Family::Numbers, kHalves, nullptr, kNowhere},
    {"pow", Family::Numbers, kHalves | kComplexHalf, nullptr, kNowhere},
    {"_foreach_add", Family::Numbers, kHalves, nullptr, kSecond | kFactor},
    {"_foreach_sub", Family::Numbers, kHalves, nullptr, kSecond | kFactor},
    {"_foreach_div", Family::Numbers, kHalves, nullptr, kNowhere},
    {"_foreach_pow", Family::Numbers, kHalves, nullptr, kSecond},

    // Weights of float32 with what is remembered of their gradients in half.
    {"_fused_adam", Family::Mixed, kHalves, nullptr},
    {"_fused_adamw", Family::Mixed, kHalves, nullptr},

    // A softmax of float16 into float32, and its gradient: that has wide arguments, and the narrow type among its own.
    {"_softmax", Family::Crossing, kHalves, "f"},
    {"_log_softmax", Family::Crossing, kHalves, "f"},
    {"_softmax_backward_data", Family::Crossing, kHalves, nullptr},
    {"_log_softmax_backward_data", Family::Crossing, kHalves, nullptr},

    // Their statistics are float32's on CUDA.
    {"native_layer_norm", Family::Parameters, kHalves, "nww", 2},
    {"native_layer_norm_backward", Family::Always, kHalves, "156"},  // the CPU's own adds up in the narrow type
    {"_fused_rms_norm", Family::Always, kHalves, "nw"},
    {"native_batch_norm", Family::Always, kHalves, "nww"},
    {"native_batch_norm_backward", Family::Always, kHalves, "122"},
    {"_native_batch_norm_legit", Family::Always, kHalves, "nww"},
    {"_native_batch_norm_legit_no_training", Family::Always, kHalves, "nww"},
    {"_batch_norm_with_update", Family::Always, kHalves, "nwww"},
    {"_batch_norm_no_update", Family::Always, kHalves, "nwww"},
    {"batch_norm_backward", Family::Always, kHalves, "122"},

    {"nll_loss_forward", Family::Always, kHalves, nullptr},
    {"nll_loss2d_forward", Family::Always, kHalves, nullptr},
    {"smooth_l1_loss", Family::Always, kHalves, nullptr},
    {"huber_loss", Family::Always, kHalves, nullptr},
    {"mse_loss", Family::Always, kHalves, nullptr},
    {"binary_cross_entropy", Family::Always, kHalves, nullptr},

    // Where between the elements a point lies is a matter of float32 on CUDA.
    {"grid_sampler_2d", Family::Always, kHalves, nullptr},
    {"grid_sampler_2d_backward", Family::Always, kHalves, nullptr},
    {"grid_sampler_3d", Family::Always, kHalves, nullptr},
    {"grid_sampler_3d_backward", Family::Always, kHalves, nullptr},

    // What the CPU has no kernel for, and CUDA has.
    {"avg_pool3d", Family::Always, kHalves, nullptr},
    {"avg_pool3d_backward", Family::Always, kHalves, nullptr},
    {"_upsample_bilinear2d_aa", Family::Always, kHalves, nullptr},
    {"_upsample_bilinear2d_aa_backward", Family::Always, kHalves, nullptr},
    {"_upsample_bicubic2d_aa", Family::Always, kHalves, nullptr},
    {"_upsample_bicubic2d_aa_backward", Family::Always, kHalves, nullptr},
    {"multi_margin_loss", Family::Always, kHalves, nullptr},
    {"multi_margin_loss_backward", Family::Always, kHalves, nullptr},
    {"multilabel_margin_loss_forward", Family::Always, kHalves, nullptr},
    {"multilabel_margin_loss_backward", Family::Always, kHalves, nullptr},
    {"rrelu_with_noise", Family::Always, kHalves, nullptr},
    {"rrelu_with_noise_backward", Family::Always, kHalves, nullptr},
    {"round", Family::Always, kHalves, nullptr},
    {"polygamma", Family::Always, kHalves, nullptr},
    {"logit", Family::Always, kHalves, nullptr},
    {"_sparse_sparse_matmul", Family::Always, kHalves, nullptr},
    {"sparse_sampled_addmm", Family::Always, kHalves, nullptr},
    {"_fft_r2c", Family::Always, kHalf, nullptr},
    {"_fft_c2c", Family::Always, kComplexHalf, nullptr},
    {"_fft_c2r", Family::Always, kComplexHalf, nullptr},
    {"abs", Family::Always, kBool, nullptr},
    {"trace", Family::Always, kBool | kHalves | kComplexHalf, nullptr},
    {"median", Family::Always, kBool | kEighths, nullptr},
    {"nanmedian", Family::Always, kBool | kEighths, nullptr},
    {"histc", Family::Always, kIntegers, nullptr},
    {"max_unpool2d", Family::Always, kIntegers, nullptr},
    {"max_unpool3d", Family::Always, kIntegers, nullptr},

#define HOSTDEVICE_COMPLEX_HALF(op) {op, Family::Always, kComplexHalf, nullptr}
    HOSTDEVICE_COMPLEX_HALF("acos"),
    HOSTDEVICE_COMPLEX_HALF("acosh"),
    HOSTDEVICE_COMPLEX_HALF("asin"),
    HOSTDEVICE_COMPLEX_HALF("asinh"),
    HOSTDEVICE_COMPLEX_HALF("atan"),
    HOSTDEVICE_COMPLEX_HALF("atanh"),
    HOSTDEVICE_COMPLEX_HALF("cos"),
    HOSTDEVICE_COMPLEX_HALF("cosh"),
    HOSTDEVICE_COMPLEX_HALF("sin"),
    HOSTDEVICE_COMPLEX_HALF("sinh"),
    HOSTDEVICE_COMPLEX_HALF("tan"),
    HOSTDEVICE_COMPLEX_HALF("tanh"),
    HOSTDEVICE_COMPLEX_HALF("exp"),
    HOSTDEVICE_COMPLEX_HALF("log"),
    HOSTDEVICE_COMPLEX_HALF("sqrt"),
    HOSTDEVICE_COMPLEX_HALF("rsqrt"),
    HOSTDEVICE_COMPLEX_HALF("reciprocal"),
    HOSTDEVICE_COMPLEX_HALF("sigmoid"),
    HOSTDEVICE_COMPLEX_HALF("angle"),
    HOSTDEVICE_COMPLEX_HALF("sgn"),
    HOSTDEVICE_COMPLEX_HALF("lerp"),
    HOSTDEVICE_COMPLEX_HALF("logaddexp"),
    HOSTDEVICE_COMPLEX_HALF("sum"),
    HOSTDEVICE_COMPLEX_HALF("prod"),
    HOSTDEVICE_COMPLEX_HALF("logsumexp"),
    HOSTDEVICE_COMPLEX_HALF("std"),
    HOSTDEVICE_COMPLEX_HALF("var"),
    HOSTDEVICE_COMPLEX_HALF("linalg_vector_norm"),
    HOSTDEVICE_COMPLEX_HALF("sigmoid_backward"),
    HOSTDEVICE_COMPLEX_HALF("tanh_backward"),
    HOSTDEVICE_COMPLEX_HALF("equal"),
    HOSTDEVICE_COMPLEX_HALF("eye"),
    HOSTDEVICE_COMPLEX_HALF("ldexp"),
#undef HOSTDEVICE_COMPLEX_HALF

// Elements go from one place to another: any type will do.
#define HOSTDEVICE_MOVES(op) {op, Family::Always, kComplexHalf | kEighths, nullptr}
    HOSTDEVICE_MOVES("flip"),
    HOSTDEVICE_MOVES("gather"),
    HOSTDEVICE_MOVES("scatter"),
    HOSTDEVICE_MOVES("channel_shuffle"),
    HOSTDEVICE_MOVES("native_channel_shuffle"),
    HOSTDEVICE_MOVES("pixel_shuffle"),
    HOSTDEVICE_MOVES("pixel_unshuffle"),
#undef HOSTDEVICE_MOVES
};

std::array<std::atomic<Types>, kMeasured>& quick() {
  static std::array<std::atomic<Types>, kMeasured> types{};
  return types;
}

ScalarType wide_of(ScalarType type) {
  if (type == ScalarType::ComplexHalf) return ScalarType::ComplexFloat;
  if (type == ScalarType::Bool) return ScalarType::Byte;
  return at::isIntegralType(type, false) ? ScalarType::Double : ScalarType::Float;
}

// Whether the narrow type has the number that CUDA computes with. A complex one it has not.
bool is_exact(const c10::Scalar& number, ScalarType narrow) {
  if (number.isSymbolic()) return true;
  if (number.isComplex()) return false;
  const auto given = static_cast<double>(static_cast<float>(number.to<double>()));
  return as_kept(number, narrow) == given || given != given;
}

// Whether all numbers of an argument are: one, a list of them, a tensor of the CPU's beside tensors of the GPU's.
bool are_exact(const c10::IValue& v, ScalarType narrow) {
  if (v.isScalar()) return is_exact(v.toScalar(), narrow);
  if (v.isTensor()) {
    const Tensor& t = v.toTensor();
    return !t.defined() || t.dim() != 0 || !t.device().is_cpu() || is_exact(number_of(t), narrow);
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

// A result's type where the arguments' was narrow: real parts of complex numbers are real, spectra are complex.
ScalarType narrowed(ScalarType made, ScalarType narrow) {
  if (made == wide_of(narrow)) return narrow;
  if (made == ScalarType::Float && narrow == ScalarType::ComplexHalf) return ScalarType::Half;
  if (made == ScalarType::ComplexFloat && narrow == ScalarType::Half) return ScalarType::ComplexHalf;
  return made;
}

// The type that torch promotes the inputs to; none where all are whole numbers, which do not count beside fractions.
// Undefined where a list or an output has another type: the CPU's kernel then converts as CUDA's does.
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

double as_kept(const c10::Scalar& number, ScalarType narrow) {
  const auto wide = static_cast<float>(number.to<double>());
  return narrow == ScalarType::Half ? static_cast<float>(c10::Half(wide)) : static_cast<float>(c10::BFloat16(wide));
}

const WideRow* find_wide_row(std::string_view name) {
  static const auto* rows = new RowsByName<WideRow>(by_name(kWideRows));
  return find_row(*rows, name);
}

Types widened(const WideRow& row) {
  return row.family >= Family::Mixed ? row.types : row.types & ~quick()[static_cast<size_t>(row.family)].load();
}

void keep_narrow(const std::string& family, const std::string& type) {
  for (size_t i = 0; i < kMeasured; i++) {
    if (family != kFamilies[i]) continue;
    TORCH_CHECK(type == "float16" || type == "bfloat16", "not a type that is widened: ", type);
    quick()[i] |= types_of(type == "float16" ? ScalarType::Half : ScalarType::BFloat16);
    return;
  }
  TORCH_CHECK(false, "no such family of operators: ", family);
}

bool Widening::ask_numbers(torch::jit::Stack& stack, size_t base, size_t inputs) {
  constexpr size_t kLooked = 3;  // two arguments and a factor
  const size_t count = std::min(stack.size() - base, kLooked);
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
  // One element on the GPU is no number to CUDA but an element, and rounded as it is read.
  const bool by_both = (row_.weight & kByBoth) != 0;
  for (size_t i = 0; i < count && dimensioned; i++) {
    c10::IValue& v = stack[base + i];
    if (by_both && v.isScalar() && !v.toScalar().isComplex()) v = at::Scalar(as_kept(v.toScalar(), narrow));
    if (!v.isTensor() || !v.toTensor().defined()) continue;
    const Tensor& t = v.toTensor();
    const bool rounded = by_both || !t.device().is_cpu();
    if (t.dim() == 0 && rounded && t.is_floating_point() && t.scalar_type() != narrow) v = t.to(narrow);
  }
  if (wider) sum_ = number_sum(row_.op, types_, stack, base);
  return wider || by_both;
}

bool Widening::in_one_pass(bool fresh, torch::jit::Stack& stack, size_t base) const {
  if (sum_.has_value()) add_number(*sum_, fresh, stack, base);
  return sum_.has_value();
}

bool Widening::ask(torch::jit::Stack& stack, size_t base, size_t inputs, const std::vector<uint16_t>& dtypes) {
  if (row_.family == Family::Numbers) return ask_numbers(stack, base, inputs);
  if (!row_.mixes()) {
    if (const auto type = promote(stack, base, inputs)) {
      if (!holds(types_, *type)) return false;
      narrow_ = *type;
    }
  }
  for (const auto i : dtypes) {
    auto& v = stack[base + i];
    if (!v.isInt() || !holds(types_, static_cast<ScalarType>(v.toInt()))) continue;
    narrow_ = static_cast<ScalarType>(v.toInt());
    v = static_cast<int64_t>(wide_of(narrow_));
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
    data_stays_ = weight.isTensor() && weight.toTensor().defined() && holds(types_, weight.toTensor().scalar_type());
  }
  // Of a crossing, one side is wide.
  return row_.family != Family::Crossing || keeps_wide_ || narrow_ != ScalarType::Undefined;
}

Tensor Widening::argument(const Tensor& alias, bool written, size_t place) {
  if (!alias.defined() || sum_.has_value()) return alias;
  const auto type = alias.scalar_type();
  if (given_.size() <= place) given_.resize(place + 1, ScalarType::Undefined);
  given_[place] = type;
  // Besides the first argument, whole numbers are places.
  if (!holds(types_, type) || (at::isIntegralType(type, true) && place != 0 && !written)) return alias;
  if (narrow_ == ScalarType::Undefined) narrow_ = type;
  if (data_stays_ && place < row_.weight) return alias;
  for (auto& copy : copies_) {
    if (!copy.narrow.is_same(alias)) continue;
    copy.written = copy.written || written;
    return copy.wide;
  }
  const AllocateOnDevice here(index_);
  copies_.push_back({alias, alias.to(wide_of(type)), written});
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

Tensor Widening::result(Tensor made, size_t place) {
  if (!made.defined()) return made;
  for (const auto& copy : copies_)
    if (copy.wide.is_same(made)) return copy.narrow;
  const char rule = row_.results && place < std::strlen(row_.results) ? row_.results[place] : 'n';
  if (rule == 'w' || (rule == 'f' && keeps_wide_)) return made;
  auto type = narrow_;
  if (rule >= '0' && rule <= '9') {
    const size_t i = static_cast<size_t>(rule - '0');
    // What was not given has a gradient of the input's type, if any.
    if (i < given_.size() && given_[i] != ScalarType::Undefined) type = given_[i];
  }
  if (type == ScalarType::Undefined) return made;
  const AllocateOnDevice here(index_);
  return made.to(narrowed(made.scalar_type(), type));
}

}  // namespace hostdevice
