#include "recurrent/whole.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_cudnn_rnn.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <vector>

#include "operators/alias.h"
#include "recurrent/rnn_weights.h"
#include "runtime/host.h"

namespace hostdevice {
namespace {

using at::Tensor;

thread_local int t_cast_networks = 0;

bool is_promised(const Tensor& t) {
  return is_only_promised(t.storage().nbytes());
}

Tensor cast(const Tensor& t) {
  return t.is_floating_point() && t.scalar_type() != at::kDouble ? t.to(at::kHalf) : t;
}

std::vector<Tensor> cast(at::TensorList tensors) {
  std::vector<Tensor> found;
  for (const auto& t : tensors) found.push_back(cast(t));
  return found;
}

}  // namespace

CastNetwork::CastNetwork(const Tensor& given, at::TensorList given_states, at::TensorList given_weights)
    : input(cast(given)),
      states(cast(given_states)),
      weights(cast(given_weights)),
      below(c10::autocast_dispatch_keyset) {
  t_cast_networks++;
}
CastNetwork::~CastNetwork() {
  t_cast_networks--;
}

std::unique_ptr<CastNetwork> cast_network(const Tensor& input, at::TensorList states, at::TensorList weights) {
  if (c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutocastCUDA) ||
      !at::autocast::is_autocast_enabled(at::kCUDA) || !uses_cudnn(input))
    return nullptr;
  return std::make_unique<CastNetwork>(input, states, weights);
}
bool is_cast_network() {
  return t_cast_networks > 0;
}

std::optional<std::tuple<Tensor, Tensor, Tensor>> promise_network(const Network& n) {
  if (!g_only_promises.load(std::memory_order_relaxed) || !uses_cudnn(n.input)) return std::nullopt;
  const bool has_cells = n.mode == Mode::kLstm;
  if (n.states.size() != (has_cells ? 2 : 1)) return std::nullopt;
  const Tensor& hx = n.states[0];
  const bool is_large = is_promised(n.input) || is_promised(hx) ||
      std::any_of(n.weights.begin(), n.weights.end(), [](const Tensor& t) { return is_promised(t); });
  if (!is_large) return std::nullopt;
  const int64_t hidden = n.states.back().size(2);
  const bool projected = hx.size(2) != hidden;
  auto chunk = find_weight_buffer(n.weights, n.biases, projected);
  if (is_cast_network())
    chunk = n.weights[0].detach();
  else if (!chunk)
    warn_not_contiguous();
  std::vector<int64_t> batches;
  if (n.sizes)
    batches.assign(n.sizes->const_data_ptr<int64_t>(), n.sizes->const_data_ptr<int64_t>() + n.sizes->numel());
  const auto stride = static_cast<int64_t>(n.biases ? 4 : 2) + projected;
  const auto found = at::_cudnn_rnn(
      n.input, n.weights, stride, chunk, hx, has_cells ? std::optional<Tensor>(n.states[1]) : std::nullopt,
      static_cast<int64_t>(n.mode), hidden, projected ? hx.size(2) : 0, n.layers, n.batch_first, n.dropout,
      n.train && at::GradMode::is_enabled(), n.bidirectional, batches, std::nullopt);
  const std::tuple<Tensor, Tensor, Tensor> results{
      std::get<0>(found), std::get<1>(found), has_cells ? std::get<2>(found) : Tensor()};
  refuse_backward_in_eval(n.input, n.train, {std::get<0>(results), std::get<1>(results)});
  return results;
}

}  // namespace hostdevice
