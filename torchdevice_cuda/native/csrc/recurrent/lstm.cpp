// The LSTM as on CUDA: one cuDNN operator for all layers, here over the CPU's fused kernel for one layer (oneDNN). Step
// by step it takes three times as long.
#include <ATen/Context.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_cudnn_rnn.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/mkldnn_rnn_layer.h>
#include <ATen/ops/mkldnn_rnn_layer_backward.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/util/irange.h>

#include <array>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "operators/alias.h"
#include "operators/composites.h"
#include "recurrent/rnn_weights.h"
#include "recurrent/whole.h"
#include "runtime/allocator.h"
#include "runtime/device.h"

namespace hostdevice {
namespace {

using at::Tensor;
using at::TensorList;
using c10::SymInt;

// cuDNN's number of this mode, and oneDNN's too.
constexpr auto kLstm = static_cast<int64_t>(Mode::kLstm);

// Sizes that a network's tensors must agree on.
struct Shape {
  int64_t steps, batch, inputs, hidden, layers, directions;
  bool biases;

  int64_t stacks() const {
    return layers * directions;
  }
  int64_t weights() const {
    return biases ? 4 : 2;
  }
};

bool has_sizes(const Tensor& t, at::IntArrayRef sizes) {
  return t.sizes() == sizes;
}

// Whether the fused kernel computes this network; for an invalid one the composite raises PyTorch's error.
bool is_supported(const Shape& s, TensorList hx, TensorList weights) {
  if (s.steps * s.batch * s.inputs == 0 || static_cast<int64_t>(weights.size()) != s.stacks() * s.weights())
    return false;
  for (const auto& state : hx)
    if (!has_sizes(state, {s.stacks(), s.batch, s.hidden})) return false;
  for (const auto i : c10::irange(s.stacks())) {
    const auto of_stack = weights.slice(i * s.weights(), s.weights());
    const int64_t inputs = i < s.directions ? s.inputs : s.hidden * s.directions;
    if (!has_sizes(of_stack[0], {4 * s.hidden, inputs}) || !has_sizes(of_stack[1], {4 * s.hidden, s.hidden}))
      return false;
    for (const auto& bias : of_stack.slice(2))
      if (!has_sizes(bias, {4 * s.hidden})) return false;
  }
  return true;
}

bool can_fuse(const Tensor& t, const Tensor& input) {
  return t.defined() && t.device() == input.device() && t.scalar_type() == at::kFloat && is_plain(t) &&
      !at::isTensorSubclassLike(t) && !t.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

// ---- data that the forward pass keeps for the backward pass -------------------------------------------------------

// One tensor of bytes, like cuDNN's: the workspace size of each stack, then each stack's results and workspace.
class Reserve {
 public:
  static constexpr int64_t kAligned = 64;

  struct Part {
    Tensor out, hy, cy, workspace;
  };

  static Tensor pack(const std::vector<Part>& parts) {
    int64_t bytes = round_up_bytes(static_cast<int64_t>(parts.size() * sizeof(int64_t)));
    for (const auto& part : parts)
      for (const auto* t : {&part.out, &part.hy, &part.cy, &part.workspace})
        bytes += round_up_bytes(static_cast<int64_t>(t->nbytes()));
    Tensor all = at::empty({bytes}, at::TensorOptions().dtype(at::kByte));
    auto* begin = all.mutable_data_ptr<uint8_t>();
    int64_t at = 0;
    for (const auto& part : parts) {
      const auto size = static_cast<int64_t>(part.workspace.nbytes());
      std::memcpy(begin + at, &size, sizeof size);
      at += static_cast<int64_t>(sizeof size);
    }
    at = round_up_bytes(at);
    for (const auto& part : parts)
      for (const auto* t : {&part.out, &part.hy, &part.cy, &part.workspace}) {
        std::memcpy(begin + at, t->contiguous().const_data_ptr(), t->nbytes());
        at += round_up_bytes(static_cast<int64_t>(t->nbytes()));
      }
    return all;
  }

  // Return views of the bytes. The program passes them, so they may belong to another network, or to none.
  static std::vector<Part> unpack(const Tensor& all, const Shape& s) {
    const auto sizes = s.stacks() * static_cast<int64_t>(sizeof(int64_t));
    const int64_t out = s.steps * s.batch * s.hidden, state = s.batch * s.hidden;
    TORCH_CHECK(
        all.scalar_type() == at::kByte && all.is_contiguous() && all.numel() >= round_up_bytes(sizes),
        "_cudnn_rnn_backward: reserve is not what _cudnn_rnn gave for this network");
    int64_t at = round_up_bytes(sizes);
    std::vector<Part> parts;
    const auto next = [&](int64_t bytes) {
      TORCH_CHECK(
          bytes >= 0 && bytes <= all.numel() - at,
          "_cudnn_rnn_backward: reserve is not what _cudnn_rnn gave for this network");
      Tensor found = all.narrow(0, at, bytes);
      at += round_up_bytes(bytes);
      return found;
    };
    for (const auto i : c10::irange(s.stacks())) {
      int64_t workspace = 0;
      std::memcpy(&workspace, all.const_data_ptr<uint8_t>() + i * sizeof workspace, sizeof workspace);
      const auto floats = [&](int64_t number, at::IntArrayRef shape) {
        return next(number * static_cast<int64_t>(sizeof(float))).view(at::kFloat).view(shape);
      };
      Part part;
      part.out = floats(out, {s.steps, s.batch, s.hidden});
      part.hy = floats(state, {s.batch, s.hidden});
      part.cy = floats(state, {s.batch, s.hidden});
      part.workspace = next(workspace);
      parts.push_back(std::move(part));
    }
    return parts;
  }

 private:
  static int64_t round_up_bytes(int64_t bytes) {
    return (bytes + kAligned - 1) / kAligned * kAligned;
  }
};

// ---- on the CPU ---------------------------------------------------------------------------------------------------

// Return the weights of one stack, with biases of zero if it has none.
std::array<Tensor, 4> of_stack(const std::vector<Tensor>& weights, const Shape& s, int64_t stack) {
  const auto first = static_cast<size_t>(stack * s.weights());
  if (s.biases) return {weights[first], weights[first + 1], weights[first + 2], weights[first + 3]};
  const Tensor none = at::zeros({4 * s.hidden}, weights[first].options());
  return {weights[first], weights[first + 1], none, none};
}

Tensor join_directions(const std::vector<Tensor>& of_directions) {
  return of_directions.size() == 1 ? of_directions[0] : at::cat(of_directions, -1);
}

struct Forward {
  Tensor out, hy, cy, reserve;
};
Forward forward(
    const Tensor& input, const std::vector<Tensor>& weights, const Tensor& hx, const Tensor& cx, const Shape& s,
    bool train) {
  // The kernel keeps a workspace only in grad mode.
  const at::AutoGradMode keeps(train);
  std::vector<Tensor> hy, cy;
  std::vector<Reserve::Part> kept;
  Tensor given = input;
  for (const auto layer : c10::irange(s.layers)) {
    std::vector<Tensor> outs;
    for (const auto direction : c10::irange(s.directions)) {
      const auto stack = layer * s.directions + direction;
      const auto w = of_stack(weights, s, stack);
      auto [out, last, cell, workspace] = at::mkldnn_rnn_layer(
          given, w[0], w[1], w[2], w[3], hx[stack], cx[stack], direction > 0, {}, kLstm, s.hidden, s.layers, true,
          s.directions == 2, false, train);
      if (train) kept.push_back({out, last, cell, workspace});
      outs.push_back(std::move(out));
      hy.push_back(std::move(last));
      cy.push_back(std::move(cell));
    }
    given = join_directions(outs);
  }
  Tensor reserve = train ? Reserve::pack(kept) : at::empty({0}, input.options().dtype(at::kByte));
  return {given, at::stack(hy), at::stack(cy), std::move(reserve)};
}

struct Backward {
  Tensor input, hx, cx;
  std::vector<Tensor> weights;
};
Backward backward(
    const Tensor& input, const std::vector<Tensor>& weights, const Tensor& hx, const Tensor& cx, const Tensor& grad_out,
    const Tensor& grad_hy, const Tensor& grad_cy, const Tensor& reserve, const Shape& s) {
  const auto kept = Reserve::unpack(reserve, s);
  std::vector<Tensor> grad_weights(weights.size()), grads_hx(kept.size()), grads_cx(kept.size());
  Tensor grad = grad_out;
  for (int64_t layer = s.layers - 1; layer >= 0; layer--) {
    Tensor given = input;
    if (layer > 0) {
      std::vector<Tensor> below;
      for (const auto direction : c10::irange(s.directions))
        below.push_back(kept[static_cast<size_t>((layer - 1) * s.directions + direction)].out);
      given = join_directions(below);
    }
    Tensor grad_given;
    for (const auto direction : c10::irange(s.directions)) {
      const auto stack = layer * s.directions + direction;
      const auto at = static_cast<size_t>(stack);
      const auto w = of_stack(weights, s, stack);
      const auto& part = kept[at];
      auto [to_input, to_w0, to_w1, to_b0, to_b1, to_hx, to_cx] = at::mkldnn_rnn_layer_backward(
          given, w[0], w[1], w[2], w[3], hx[stack], cx[stack], part.out, part.hy, part.cy,
          grad.narrow(-1, direction * s.hidden, s.hidden).contiguous(), grad_hy[stack], grad_cy[stack], direction > 0,
          kLstm, s.hidden, s.layers, true, true, s.directions == 2, {}, false, part.workspace);
      grad_given = grad_given.defined() ? grad_given.add_(to_input) : to_input;
      grads_hx[at] = to_hx;
      grads_cx[at] = to_cx;
      const std::array<Tensor, 4> found{to_w0, to_w1, to_b0, to_b1};
      for (const auto i : c10::irange(s.weights()))
        grad_weights[static_cast<size_t>(stack * s.weights() + i)] = found[static_cast<size_t>(i)];
    }
    grad = grad_given;
  }
  return {grad, at::stack(grads_hx), at::stack(grads_cx), std::move(grad_weights)};
}

// ---- on the device ------------------------------------------------------------------------------------------------

const c10::DispatchKeySet& get_excluded_keys() {
  static const c10::DispatchKeySet keys =
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;
  return keys;
}

Shape shape_of(const Tensor& input, int64_t hidden, int64_t layers, bool biases, bool bidirectional, bool batch_first) {
  const int64_t first = input.size(0), second = input.size(1);
  return {
      batch_first ? second : first,
      batch_first ? first : second,
      input.size(2),
      hidden,
      layers,
      bidirectional ? 2 : 1,
      biases};
}

// Check the arguments of a call by name. PyTorch itself calls this only for networks that fit.
Shape check_arguments(
    const char* name, const Tensor& input, TensorList weights, int64_t stride, const Tensor& hx, const OptTensor& cx,
    int64_t mode, const SymInt& hidden, const SymInt& projected, int64_t layers, bool batch_first, double dropout,
    bool train, bool bidirectional, c10::SymIntArrayRef batch_sizes) {
  const bool plain = mode == kLstm && projected == 0 && batch_sizes.empty() && (dropout == 0 || !train) &&
      is_defined(cx) && input.dim() == 3 && (stride == 2 || stride == 4);
  TORCH_CHECK_NOT_IMPLEMENTED(
      plain, name,
      ": of cuDNN's networks, a virtual GPU has the LSTM without dropout, projections and packed sequences");
  const Shape s =
      shape_of(input, hidden.guard_int(__FILE__, __LINE__), layers, stride == 4, bidirectional, batch_first);
  bool ours = can_fuse(input, input) && can_fuse(hx, input) && can_fuse(*cx, input);
  for (const auto& weight : weights) ours = ours && can_fuse(weight, input);
  TORCH_CHECK_NOT_IMPLEMENTED(ours, name, ": a virtual GPU has it for tensors of float32 that are all on one device");
  TORCH_CHECK(
      is_supported(s, {hx, *cx}, weights), name,
      ": the sizes of the weights and states are not those of such a network");
  return s;
}

Tensor to_time_major(const Tensor& t, bool batch_first) {
  return (batch_first ? t.transpose(0, 1) : t).contiguous();
}

std::vector<Tensor> to_cpu_aliases(Aliases& aliases, TensorList tensors) {
  std::vector<Tensor> found;
  found.reserve(tensors.size());
  for (const auto& t : tensors) found.push_back(aliases.to_cpu(t, false).contiguous());
  return found;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> cudnn_rnn(
    const Tensor& input, TensorList weights, int64_t stride, const OptTensor& weight_buffer, const Tensor& hx,
    const OptTensor& cx, int64_t mode, SymInt hidden, SymInt projected, int64_t layers, bool batch_first,
    double dropout, bool train, bool bidirectional, c10::SymIntArrayRef batch_sizes, const OptTensor&) {
  const Shape s = check_arguments(
      "_cudnn_rnn", input, weights, stride, hx, cx, mode, hidden, projected, layers, batch_first, dropout, train,
      bidirectional, batch_sizes);
  if (!is_defined(weight_buffer)) warn_not_contiguous();
  check_fork();
  const c10::impl::ExcludeDispatchKeyGuard below(get_excluded_keys());
  const auto index = input.device().index();
  Aliases aliases(index);
  aliases.keep_lazy();
  Forward found;
  Tensor none;
  {
    const AllocateOnDevice here(index);
    found = forward(
        to_time_major(aliases.to_cpu(input, false), batch_first), to_cpu_aliases(aliases, weights),
        aliases.to_cpu(hx, false).contiguous(), aliases.to_cpu(*cx, false).contiguous(), s, train);
    none = at::empty({0}, at::TensorOptions().dtype(at::kFloat));
  }
  Tensor out = aliases.to_device(std::move(found.out));
  return {
      batch_first ? out.transpose(0, 1) : out, aliases.to_device(std::move(found.hy)),
      aliases.to_device(std::move(found.cy)), aliases.to_device(std::move(found.reserve)),
      aliases.to_device(std::move(none))};
}

std::tuple<Tensor, Tensor, Tensor, std::vector<Tensor>> cudnn_rnn_backward(
    const Tensor& input, TensorList weights, int64_t stride, const Tensor&, const Tensor& hx, const OptTensor& cx,
    const Tensor& output, const OptTensor& grad_out, const OptTensor& grad_hy, const OptTensor& grad_cy, int64_t mode,
    SymInt hidden, SymInt projected, int64_t layers, bool batch_first, double dropout, bool train, bool bidirectional,
    c10::SymIntArrayRef batch_sizes, const OptTensor&, const Tensor& reserve, std::array<bool, 4> mask) {
  if (!is_defined(grad_out) && !is_defined(grad_hy) && !is_defined(grad_cy))
    return {Tensor(), Tensor(), Tensor(), std::vector<Tensor>(weights.size())};
  const Shape s = check_arguments(
      "_cudnn_rnn_backward", input, weights, stride, hx, cx, mode, hidden, projected, layers, batch_first, dropout,
      train, bidirectional, batch_sizes);
  TORCH_CHECK(train, kOnlyInTraining);
  check_fork();
  const c10::impl::ExcludeDispatchKeyGuard below(get_excluded_keys());
  const auto index = input.device().index();
  Aliases aliases(index);
  aliases.keep_lazy();
  Backward found;
  {
    const AllocateOnDevice here(index);
    const auto or_zeros = [&](const OptTensor& t, const Tensor& like) {
      return is_defined(t) ? aliases.to_cpu(*t, false).contiguous() : at::zeros_like(aliases.to_cpu(like, false));
    };
    found = backward(
        to_time_major(aliases.to_cpu(input, false), batch_first), to_cpu_aliases(aliases, weights),
        aliases.to_cpu(hx, false).contiguous(), aliases.to_cpu(*cx, false).contiguous(),
        to_time_major(or_zeros(grad_out, output), batch_first), or_zeros(grad_hy, hx), or_zeros(grad_cy, *cx),
        aliases.to_cpu(reserve, false), s);
  }
  Tensor to_input = aliases.to_device(std::move(found.input));
  std::vector<Tensor> to_weights;
  if (mask[3])
    for (auto& t : found.weights) to_weights.push_back(aliases.to_device(std::move(t)));
  return {
      batch_first ? to_input.transpose(0, 1) : to_input, aliases.to_device(std::move(found.hx)),
      aliases.to_device(std::move(found.cx)), std::move(to_weights)};
}

// Whether CUDA would use cuDNN and the CPU has a fused kernel; otherwise the network is computed step by step.
bool is_fused(
    const Tensor& input, TensorList hx, TensorList weights, bool biases, int64_t layers, double dropout, bool train,
    bool bidirectional, bool batch_first) {
  const auto& context = at::globalContext();
  if (!context.userEnabledCuDNN() || !context.userEnabledMkldnn() || !at::hasMKLDNN() ||
      c10::impl::dispatch_mode_enabled())
    return false;
  if (!can_fuse(input, input) || input.dim() != 3 || hx.size() != 2 || (dropout != 0 && train && layers > 1))
    return false;
  for (const auto& t : hx)
    if (!can_fuse(t, input) || t.dim() != 3) return false;
  for (const auto& t : weights)
    if (!can_fuse(t, input)) return false;
  return is_supported(shape_of(input, hx[1].size(2), layers, biases, bidirectional, batch_first), hx, weights);
}

std::tuple<Tensor, Tensor, Tensor> lstm(
    const Tensor& input, TensorList hx, TensorList weights, bool biases, int64_t layers, double dropout, bool train,
    bool bidirectional, bool batch_first) {
  if (const auto in = cast_network(input, hx, weights))
    return lstm(in->input, in->states, in->weights, biases, layers, dropout, train, bidirectional, batch_first);
  if (auto whole = promise_network(
          {Mode::kLstm, input, nullptr, hx, weights, biases, layers, dropout, train, bidirectional, batch_first}))
    return *whole;
  if (!is_fused(input, hx, weights, biases, layers, dropout, train, bidirectional, batch_first)) {
    if (hx.size() == 2) check_contiguous_weights(input, weights, biases, hx[0].sym_size(-1) != hx[1].sym_size(-1));
    auto found = at::native::lstm(input, hx, weights, biases, layers, dropout, train, bidirectional, batch_first);
    refuse_backward_in_eval(input, train, {std::get<0>(found), std::get<1>(found), std::get<2>(found)});
    return found;
  }
  // Without gradients there is no backward pass to keep results for.
  const auto found = at::_cudnn_rnn(
      input, weights, biases ? 4 : 2, find_weight_buffer(weights, biases, false), hx[0], hx[1], kLstm, hx[1].size(2), 0,
      layers, batch_first, 0.0, train && at::GradMode::is_enabled(), bidirectional, {}, std::nullopt);
  return {std::get<0>(found), std::get<1>(found), std::get<2>(found)};
}

}  // namespace

void register_fused_lstm(Registrar& registrar) {
  register_rnn_weights(registrar);
  registrar.impl_where_known("_cudnn_rnn", TORCH_FN(cudnn_rnn));
  registrar.impl_where_known("_cudnn_rnn_backward", TORCH_FN(cudnn_rnn_backward));
  // Register the composite both above and below autograd.
  registrar.on_host("lstm.input", TORCH_FN(lstm));
  Registrar(c10::DispatchKey::AutogradCUDA).on_host("lstm.input", TORCH_FN(lstm));
}

}  // namespace hostdevice
