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

bool is_promised(const Tensor& t) {
  return is_only_promised(t.storage().nbytes());
}

Tensor cast(const Tensor& t, std::optional<c10::ScalarType> type) {
  return type && t.is_floating_point() && t.scalar_type() != at::kDouble ? t.to(*type) : t;
}

}  // namespace

std::optional<std::tuple<Tensor, Tensor, Tensor>> promise_network(const Network& n) {
  if (!g_only_promises.load(std::memory_order_relaxed) || !uses_cudnn(n.input)) return std::nullopt;
  const bool is_large = is_promised(n.input) || is_promised(n.hx) ||
      std::any_of(n.weights.begin(), n.weights.end(), [](const Tensor& t) { return is_promised(t); });
  if (!is_large) return std::nullopt;
  // Under autocast, PyTorch casts the weights into one chunk first.
  std::optional<c10::ScalarType> type;
  if (!c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutocastCUDA) &&
      at::autocast::is_autocast_enabled(at::kCUDA))
    type = at::autocast::get_autocast_dtype(at::kCUDA);
  const c10::impl::ExcludeDispatchKeyGuard casted(c10::autocast_dispatch_keyset);
  const Tensor input = cast(n.input, type), hx = cast(n.hx, type);
  std::optional<Tensor> cx;
  if (n.cx) cx = cast(*n.cx, type);
  std::vector<Tensor> weights;
  for (const auto& weight : n.weights) weights.push_back(cast(weight, type));
  const int64_t hidden = cx ? cx->size(2) : hx.size(2);
  const bool projected = hx.size(2) != hidden;
  auto chunk = find_weight_buffer(n.weights, n.biases, projected);
  if (type)
    chunk = weights[0].detach();
  else if (!chunk)
    warn_not_contiguous();
  std::vector<int64_t> batches;
  if (n.sizes)
    batches.assign(n.sizes->const_data_ptr<int64_t>(), n.sizes->const_data_ptr<int64_t>() + n.sizes->numel());
  const auto stride = static_cast<int64_t>(n.biases ? 4 : 2) + projected;
  const auto found = at::_cudnn_rnn(
      input, weights, stride, chunk, hx, cx, static_cast<int64_t>(n.mode), hidden, projected ? hx.size(2) : 0, n.layers,
      n.batch_first, n.dropout, n.train && at::GradMode::is_enabled(), n.bidirectional, batches, std::nullopt);
  const std::tuple<Tensor, Tensor, Tensor> results{
      std::get<0>(found), std::get<1>(found), n.cx ? std::get<2>(found) : Tensor()};
  refuse_backward_in_eval(n.input, n.train, {std::get<0>(results), std::get<1>(results)});
  return results;
}

}  // namespace hostdevice
