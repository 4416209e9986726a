// Quantized operators that CUDA has from cuDNN: for signed bytes, with 0 for every zero point.
#include <ATen/core/Tensor.h>
#include <ATen/native/quantized/PackedParams.h>
#include <ATen/ops/_make_per_tensor_quantized_tensor.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/empty_quantized_native.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/pad.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <torch/library.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "operators/composites.h"
#include "quantized/quantizing.h"

namespace hostdevice {
namespace {

using at::Tensor;
using Lengths = torch::List<int64_t>;

// Raise PyTorch's error for the first tensor that is not of signed bytes.
void check_bytes(std::initializer_list<Tensor> tensors) {
  for (const Tensor& t : tensors) t.data_ptr<int8_t>();
}
Tensor bytes_of(const Tensor& q) {
  return q.int_repr().to(at::kDouble);
}
Tensor quantize_result(const Tensor& values, double scale, int64_t zero) {
  return at::_make_per_tensor_quantized_tensor(values.round().clamp(-128, 127).to(at::kChar), scale, zero);
}
void check_scheme(const Tensor& weight) {
  TORCH_CHECK(weight.qscheme() == at::kPerTensorAffine, "Unsupported qscheme: ", toString(weight.qscheme()));
}
void check_bias(const OptTensor& bias, int64_t count) {
  if (!bias.has_value()) return;
  TORCH_CHECK(bias->dim() == 1, "bias should be a vector (1D Tensor)");
  TORCH_CHECK(bias->size(0) == count, "bias should have K elements: " + std::to_string(count));
}

template <bool kRelu>
Tensor add(const Tensor& a, const Tensor& b, double scale, int64_t zero) {
  if (a.numel() == 0) return {};
  TORCH_CHECK(a.sizes() == b.sizes(), "Quantized cudnn add currently expects both input tensors to be the same shape");
  TORCH_CHECK(a.qscheme() == at::kPerTensorAffine, "Only per tensor quantization is supported in Add.");
  TORCH_CHECK(a.qscheme() == b.qscheme(), "Both inputs to Add must have the same quantization scheme.");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "Add operands should have same data type.");
  TORCH_CHECK(a.dim() <= 4, "Unable to find an engine to execute this computation in Quantized Add Cudnn");
  check_bytes({b, a});
  Tensor sum = bytes_of(b).mul_(b.q_scale() / a.q_scale()).add_(bytes_of(a));
  if (kRelu) sum.relu_();
  Tensor made = quantize_result(sum.mul_(a.q_scale() / scale), scale, zero);
  return a.dim() == 4 ? made.contiguous(at::MemoryFormat::ChannelsLast) : made;
}

struct LinearWeight final : LinearPackedParamsBase {
  LinearWeight(Tensor weight, OptTensor bias) : weight_(std::move(weight)), bias_(std::move(bias)) {}

  Tensor apply(Tensor input, double scale, int64_t zero) override {
    return compute(input, scale, zero, false);
  }
  Tensor apply_relu(Tensor input, double scale, int64_t zero) override {
    return compute(input, scale, zero, true);
  }
  Tensor apply_dynamic(Tensor, bool) override {
    TORCH_CHECK(false, "apply_dynamic is not implemented for this packed parameter type");
  }
  Tensor apply_dynamic_relu(Tensor, bool) override {
    TORCH_CHECK(false, "apply_dynamic_relu is not implemented for this packed parameter type");
  }
  std::tuple<Tensor, OptTensor> unpack() override {
    return {weight_, bias_};
  }
  OptTensor bias() override {
    return bias_;
  }

 private:
  Tensor compute(const Tensor& input, double scale, int64_t zero, bool relu) {
    // View the input as rows.
    const Tensor rows = input.view({1, input.size(0), input.size(-1)}).squeeze(0);
    check_bytes({input, weight_});
    // The bias is not added: an H200 returns the same with one as without.
    Tensor sum = at::mm(bytes_of(rows), bytes_of(weight_).t());
    if (relu) sum.relu_();
    return quantize_result(sum.mul_(input.q_scale() * weight_.q_scale() / scale), scale, zero);
  }
  Tensor weight_;
  OptTensor bias_;
};

c10::intrusive_ptr<LinearPackedParamsBase> linear_prepack(Tensor weight, OptTensor bias) {
  check_scheme(weight);
  check_bias(bias, weight.size(0));
  return c10::make_intrusive<LinearWeight>(std::move(weight), std::move(bias));
}
template <bool kRelu>
Tensor linear(Tensor input, const c10::intrusive_ptr<LinearPackedParamsBase>& weight, double scale, int64_t zero) {
  return kRelu ? weight->apply_relu(std::move(input), scale, zero) : weight->apply(std::move(input), scale, zero);
}

struct ConvolutionWeight final : ConvPackedParamsBase<2> {
  // Channels are padded to a multiple of four.
  ConvolutionWeight(Tensor weight, OptTensor bias, Lengths stride, Lengths padding, Lengths dilation)
      : given_(weight.size(0)),
        bias_(std::move(bias)),
        stride_(std::move(stride)),
        padding_(std::move(padding)),
        dilation_(std::move(dilation)) {
    const int64_t outputs = (4 - weight.size(0) % 4) % 4, inputs = (4 - weight.size(1) % 4) % 4;
    if (outputs || inputs) {
      weight = at::pad(weight, {0, 0, 0, 0, 0, inputs, 0, outputs}, "constant", 0);
      if (bias_.has_value()) bias_ = at::pad(*bias_, {0, outputs}, "constant", 0);
    }
    weight_ = weight.contiguous(at::MemoryFormat::ChannelsLast);
  }

  Tensor apply(const Tensor& input, double scale, int64_t zero) override {
    return compute(input, scale, zero, false);
  }
  Tensor apply_relu(const Tensor& input, double scale, int64_t zero) override {
    return compute(input, scale, zero, true);
  }
  Tensor apply_dynamic(const Tensor&, bool) override {
    TORCH_CHECK(false, "apply_dynamic is currently not reported");
  }
  std::tuple<Tensor, OptTensor> unpack() override {
    return {weight_, bias_};
  }
  Lengths stride() const override {
    return stride_;
  }
  Lengths padding() const override {
    return padding_;
  }
  Lengths output_padding() const override {
    return Lengths({0, 0});
  }
  Lengths dilation() const override {
    return dilation_;
  }
  int64_t groups() const override {
    return 1;
  }
  bool transpose() const override {
    return false;
  }

 private:
  Tensor compute(const Tensor& input, double scale, int64_t zero, bool relu) {
    const auto type = input.scalar_type();
    TORCH_CHECK(type == at::kQInt8, "getCudnnDataTypeFromScalarType() not supported for ", toString(type));
    check_bytes({weight_});
    Tensor bytes = bytes_of(input);
    if (const auto more = (4 - input.size(1) % 4) % 4) bytes = at::pad(bytes, {0, 0, 0, 0, 0, more}, "constant", 0);
    Tensor sum = at::convolution(
        bytes, bytes_of(weight_), std::nullopt, stride_.vec(), padding_.vec(), dilation_.vec(), false, {0, 0}, 1);
    // Products are summed as integers; the rest is computed in floating point.
    const double multiplier = input.q_scale() * weight_.q_scale();
    if (bias_.has_value()) sum.add_(bias_->to(at::kDouble).div_(multiplier).view({1, -1, 1, 1}));
    if (relu) sum.relu_();
    const Tensor made =
        quantize_result(sum.mul_(multiplier / scale), scale, zero).contiguous(at::MemoryFormat::ChannelsLast);
    return given_ == weight_.size(0) ? made : made.slice(1, 0, given_);
  }
  int64_t given_;
  Tensor weight_;
  OptTensor bias_;
  Lengths stride_, padding_, dilation_;
};

c10::intrusive_ptr<ConvPackedParamsBase<2>> convolution_prepack(
    Tensor weight, OptTensor bias, Lengths stride, Lengths padding, Lengths dilation, int64_t groups) {
  TORCH_CHECK(groups == 1, "Quantized cudnn conv2d is currently limited to groups = 1; received groups =", groups);
  check_scheme(weight);
  TORCH_CHECK(weight.dim() == 4, "Weights are expected to have ", 4, " dimensions");
  TORCH_CHECK(stride.size() == 2, "stride should contain ", 2, " elements for ", 2, "D convolution.");
  TORCH_CHECK(
      padding.size() == 2,
      "quantized::conv_prepack (cudnn): Specify front/top/left padding only. end/bottom/right padding assumed to be "
      "equal to front/top/left");
  TORCH_CHECK(
      dilation.size() == 2, "quantized::conv_prepack (cudnn): dilation should contain ", 2, " elements for ", 2,
      "D convolution.");
  check_bias(bias, weight.size(0));
  return c10::make_intrusive<ConvolutionWeight>(
      std::move(weight), std::move(bias), std::move(stride), std::move(padding), std::move(dilation));
}
// A one-dimensional convolution is one row.
c10::intrusive_ptr<ConvPackedParamsBase<2>> line_prepack(
    Tensor weight, OptTensor bias, const Lengths& stride, const Lengths& padding, const Lengths& dilation,
    int64_t groups) {
  const auto two = [](const Lengths& one, int64_t filler) {
    TORCH_CHECK(!one.empty(), "Argument must have elements.");
    return Lengths({filler, one.get(0)});
  };
  if (weight.dim() == 3) weight = weight.unsqueeze(-2);
  return convolution_prepack(
      std::move(weight), std::move(bias), two(stride, 1), two(padding, 0), two(dilation, 1), groups);
}

template <bool kRelu>
Tensor convolution(
    const Tensor& input, const c10::intrusive_ptr<ConvPackedParamsBase<2>>& weight, double scale, int64_t zero) {
  return kRelu ? weight->apply_relu(input, scale, zero) : weight->apply(input, scale, zero);
}
template <bool kRelu>
Tensor line(
    const Tensor& input, const c10::intrusive_ptr<ConvPackedParamsBase<2>>& weight, double scale, int64_t zero) {
  return convolution<kRelu>(input.unsqueeze(-2), weight, scale, zero).squeeze(-2);
}

Tensor pool(
    const Tensor& q, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
    bool ceil) {
  const auto check = [](const char* what, at::IntArrayRef given) {
    TORCH_CHECK(
        given.size() == 2, "quantized_max_pool2d_cudnn(): Expected ", what, " to be 2-dimensional: got ", given.size());
  };
  if (stride.empty()) stride = kernel;
  TORCH_CHECK(q.dim() == 3 || q.dim() == 4, "Expecting the input tensor of rank 3 or 4.");
  check("kernel_size", kernel);
  check("stride", stride);
  check("dilation", dilation);
  TORCH_CHECK(
      dilation[0] == 1 && dilation[1] == 1,
      "quantized_max_pool2d_cudnn(): Expected dilation=[1, 1] (cudnn does not currently support dilation[i] != 1), got",
      dilation);
  check("padding", padding);
  const auto type = q.scalar_type();
  TORCH_CHECK(type == at::kQInt8, "TensorDescriptor does not support ", toString(type));
  const Tensor most = at::max_pool2d(q.int_repr().to(at::kFloat), kernel, stride, padding, dilation, ceil);
  const Tensor made = at::_make_per_tensor_quantized_tensor(most.to(at::kChar), q.q_scale(), q.q_zero_point());
  return q.dim() == 4 ? made.contiguous(at::MemoryFormat::ChannelsLast) : made;
}
// These compute in floating point.
Tensor gelu(const Tensor& q, c10::string_view approximate) {
  const Tensor made = at::gelu(q.dequantize(), approximate);
  return at::quantize_per_tensor(made, q.q_scale(), q.q_zero_point(), q.scalar_type());
}
Tensor adaptive_avg_pool2d(const Tensor& q, c10::SymIntArrayRef size) {
  TORCH_CHECK(
      q.qscheme() == at::kPerTensorAffine,
      "adaptive_avg_pool2d_quantized_cuda oonly supports per tensor quantized tensors");
  const Tensor made = at::adaptive_avg_pool2d_symint(q.dequantize(), size);
  return at::quantize_per_tensor(made, q.q_scale(), q.q_zero_point(), q.scalar_type());
}

Tensor pool_lists(
    const Tensor& q, std::vector<int64_t> kernel, std::vector<int64_t> stride, std::vector<int64_t> padding,
    std::vector<int64_t> dilation, bool ceil) {
  return pool(q, kernel, stride, padding, dilation, ceil);
}

}  // namespace

void register_quantized(Registrar& registrar) {
  Registrar quantized(kQuantized);
  register_quantizing(registrar, quantized);
  quantized.impl_where_known("quantized_max_pool2d", TORCH_FN(pool));
  quantized.impl_where_known("gelu", TORCH_FN(gelu));
  quantized.impl_where_known("_adaptive_avg_pool2d", TORCH_FN(adaptive_avg_pool2d));
  // The CPU kernel would request on the CPU what only quantized tensors of the device refuse.
  quantized.on_host("empty_like", TORCH_FN(at::native::empty_like_quantized));
  quantized.on_host("empty_quantized", TORCH_FN(at::native::empty_quantized));

  // Kernels of one operator have one signature, and the CPU kernel's differs between releases. Kernels called by stack
  // have no signature to compare.
  Registrar others(kQuantized, "quantized");
  others.impl("add", &call_by_stack<decltype(TORCH_FN(add<false>))>);
  others.impl("add_relu", &call_by_stack<decltype(TORCH_FN(add<true>))>);
  others.impl("linear_prepack", &call_by_stack<decltype(TORCH_FN(linear_prepack))>);
  others.impl("linear", &call_by_stack<decltype(TORCH_FN(linear<false>))>);
  others.impl("linear_relu", &call_by_stack<decltype(TORCH_FN(linear<true>))>);
  others.impl("conv1d_prepack", &call_by_stack<decltype(TORCH_FN(line_prepack))>);
  others.impl("conv2d_prepack", &call_by_stack<decltype(TORCH_FN(convolution_prepack))>);
  others.impl("conv1d", &call_by_stack<decltype(TORCH_FN(line<false>))>);
  others.impl("conv1d_relu", &call_by_stack<decltype(TORCH_FN(line<true>))>);
  others.impl("conv2d.new", &call_by_stack<decltype(TORCH_FN(convolution<false>))>);
  others.impl("conv2d_relu.new", &call_by_stack<decltype(TORCH_FN(convolution<true>))>);
  others.impl("max_pool2d", &call_by_stack<decltype(TORCH_FN(pool_lists))>);
}

}  // namespace hostdevice
