// Weights of recurrent networks in one chunk of memory, in cuDNN's order: those of each layer and direction, then all
// biases. There is room for biases even if there are none.
#include "recurrent/rnn_weights.h"

#include <ATen/Context.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/gru_native.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/rnn_relu_native.h>
#include <ATen/ops/rnn_tanh_native.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "operators/alias.h"
#include "recurrent/whole.h"

namespace hostdevice {
namespace {

using at::Tensor;
using at::TensorList;
using c10::SymInt;

struct WeightOffsets {
  std::vector<int64_t> of_weights;  // offsets in elements, in the order of the list
  int64_t elements = 0;
};

// Compute offsets for `stride` tensors per layer and direction: two weights, two biases if there are any, a projection.
WeightOffsets compute_offsets(TensorList weights, size_t stride) {
  const bool biases = stride >= 4, projected = stride % 2 == 1;
  WeightOffsets offsets;
  offsets.of_weights.resize(weights.size());
  const auto put = [&](size_t i) {
    offsets.of_weights[i] = offsets.elements;
    offsets.elements += weights[i].numel();
  };
  for (size_t first = 0; first < weights.size(); first += stride) {
    put(first);
    put(first + 1);
    if (projected) put(first + stride - 1);
  }
  for (size_t first = 0; first < weights.size(); first += stride) {
    if (biases) {
      put(first + 2);
      put(first + 3);
    } else {
      offsets.elements += 2 * weights[first].size(0);
    }
  }
  return offsets;
}

Tensor flatten(
    TensorList weights, int64_t stride, SymInt, int64_t, SymInt, SymInt, int64_t layers, bool, bool bidirectional) {
  TORCH_CHECK(!weights.empty(), "empty weight list");
  const auto each = static_cast<size_t>(stride);
  TORCH_CHECK(
      stride >= 2 && stride <= 5 && weights.size() == each * static_cast<size_t>(layers) * (bidirectional ? 2 : 1),
      "_cudnn_rnn_flatten_weight: ", weights.size(), " weights are not ", stride, " for each of ", layers,
      bidirectional ? " layers both ways" : " layers");
  const WeightOffsets offsets = compute_offsets(weights, each);
  const Tensor weight_buffer = at::zeros({offsets.elements}, weights[0].options());
  for (size_t i = 0; i < weights.size(); i++) {
    const Tensor part = weight_buffer.narrow(0, offsets.of_weights[i], weights[i].numel()).view(weights[i].sizes());
    part.copy_(weights[i]);
    Tensor weight = weights[i];
    weight.set_(part);
  }
  return weight_buffer;
}

// Location of the warning in PyTorch's CUDA sources.
constexpr c10::SourceLocation kPlace{"_cudnn_rnn", "/pytorch/aten/src/ATen/native/cudnn/RNN.cpp", 1479};

bool is_plain_float(const Tensor& t) {
  return is_device_tensor(t) && t.is_floating_point() && is_plain(t) && !at::isTensorSubclassLike(t) &&
      !t.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

std::tuple<Tensor, Tensor, Tensor> packed_lstm(
    const Tensor& data, const Tensor& sizes, TensorList hx, TensorList weights, bool biases, int64_t layers,
    double dropout, bool train, bool bidirectional) {
  if (const auto in = cast_network(data, hx, weights))
    return packed_lstm(in->input, sizes, in->states, in->weights, biases, layers, dropout, train, bidirectional);
  if (auto whole = promise_network(
          {Mode::kLstm, data, &sizes, hx, weights, biases, layers, dropout, train, bidirectional, false}))
    return *whole;
  if (hx.size() == 2) check_contiguous_weights(data, weights, biases, hx[0].sym_size(-1) != hx[1].sym_size(-1));
  auto found = at::native::lstm(data, sizes, hx, weights, biases, layers, dropout, train, bidirectional);
  refuse_backward_in_eval(data, train, {std::get<0>(found), std::get<1>(found), std::get<2>(found)});
  return found;
}

using Padded =
    std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, TensorList, bool, int64_t, double, bool, bool, bool);
using Packed = std::tuple<Tensor, Tensor>(
    const Tensor&, const Tensor&, const Tensor&, TensorList, bool, int64_t, double, bool, bool);

template <Padded* kFunction, Mode kMode>
std::tuple<Tensor, Tensor> padded(
    const Tensor& input, const Tensor& hx, TensorList weights, bool biases, int64_t layers, double dropout, bool train,
    bool bidirectional, bool batch_first) {
  if (const auto in = cast_network(input, {hx}, weights))
    return padded<kFunction, kMode>(
        in->input, in->states[0], in->weights, biases, layers, dropout, train, bidirectional, batch_first);
  if (auto whole = promise_network(
          {kMode, input, nullptr, hx, weights, biases, layers, dropout, train, bidirectional, batch_first}))
    return {std::get<0>(*whole), std::get<1>(*whole)};
  check_contiguous_weights(input, weights, biases, false);
  auto found = kFunction(input, hx, weights, biases, layers, dropout, train, bidirectional, batch_first);
  refuse_backward_in_eval(input, train, {std::get<0>(found), std::get<1>(found)});
  return found;
}
template <Packed* kFunction, Mode kMode>
std::tuple<Tensor, Tensor> packed(
    const Tensor& data, const Tensor& sizes, const Tensor& hx, TensorList weights, bool biases, int64_t layers,
    double dropout, bool train, bool bidirectional) {
  if (const auto in = cast_network(data, {hx}, weights))
    return packed<kFunction, kMode>(
        in->input, sizes, in->states[0], in->weights, biases, layers, dropout, train, bidirectional);
  if (auto whole =
          promise_network({kMode, data, &sizes, hx, weights, biases, layers, dropout, train, bidirectional, false}))
    return {std::get<0>(*whole), std::get<1>(*whole)};
  check_contiguous_weights(data, weights, biases, false);
  auto found = kFunction(data, sizes, hx, weights, biases, layers, dropout, train, bidirectional);
  refuse_backward_in_eval(data, train, {std::get<0>(found), std::get<1>(found)});
  return found;
}

void register_networks(Registrar& registrar) {
  registrar.on_host("lstm.data", TORCH_FN(packed_lstm));
  registrar.on_host("gru.input", TORCH_FN((padded<&at::native::gru, Mode::kGru>)));
  registrar.on_host("gru.data", TORCH_FN((packed<&at::native::gru, Mode::kGru>)));
  registrar.on_host("rnn_tanh.input", TORCH_FN((padded<&at::native::rnn_tanh, Mode::kTanh>)));
  registrar.on_host("rnn_tanh.data", TORCH_FN((packed<&at::native::rnn_tanh, Mode::kTanh>)));
  registrar.on_host("rnn_relu.input", TORCH_FN((padded<&at::native::rnn_relu, Mode::kRelu>)));
  registrar.on_host("rnn_relu.data", TORCH_FN((packed<&at::native::rnn_relu, Mode::kRelu>)));
}

}  // namespace

bool uses_cudnn(const Tensor& input) {
  return at::globalContext().userEnabledCuDNN() && !c10::impl::dispatch_mode_enabled() && is_plain_float(input) &&
      input.numel() != 0;
}

std::optional<Tensor> find_weight_buffer(TensorList weights, bool biases, bool projected) {
  const size_t stride = (biases ? 4 : 2) + (projected ? 1 : 0);
  if (weights.empty() || weights.size() % stride) return std::nullopt;
  const WeightOffsets offsets = compute_offsets(weights, stride);
  const auto& storage = weights[0].storage();
  const auto item = static_cast<int64_t>(weights[0].itemsize());
  if (static_cast<int64_t>(storage.nbytes()) < offsets.elements * item) return std::nullopt;
  const auto* begin = static_cast<const char*>(storage.data());
  for (size_t i = 0; i < weights.size(); i++)
    if (weights[i].const_data_ptr() != begin + offsets.of_weights[i] * item) return std::nullopt;
  if (!weights.back().is_contiguous()) return std::nullopt;
  return weights[0].detach().as_strided({offsets.elements}, {1}, 0);
}

void warn_not_contiguous() {
  c10::warn(
      c10::Warning(
          c10::UserWarning(), kPlace,
          "RNN module weights are not part of single contiguous chunk of memory. This means they need to be compacted "
          "at every call, possibly greatly increasing memory usage. To compact weights again call "
          "flatten_parameters().",
          false));
}

void refuse_backward_in_eval(const Tensor& input, bool train, TensorList results) {
  if (train || !uses_cudnn(input)) return;
  for (const auto& result : results)
    if (result.requires_grad())
      result.register_hook([](const Tensor& grad) -> Tensor {
        TORCH_CHECK(!grad.defined(), kOnlyInTraining);
        return grad;
      });
}

void check_contiguous_weights(const Tensor& input, TensorList weights, bool biases, bool projected) {
  if (!uses_cudnn(input) || is_cast_network()) return;
  for (const auto& weight : weights)
    if (!is_plain_float(weight)) return;
  if (!find_weight_buffer(weights, biases, projected).has_value()) warn_not_contiguous();
}

void register_rnn_weights(Registrar& registrar) {
  registrar.impl_where_known("_cudnn_rnn_flatten_weight", TORCH_FN(flatten));
  // Register the composites both above and below autograd.
  register_networks(registrar);
  Registrar above(c10::DispatchKey::AutogradCUDA);
  register_networks(above);
}

}  // namespace hostdevice
