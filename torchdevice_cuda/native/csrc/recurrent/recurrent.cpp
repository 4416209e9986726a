// CUDA's fused cells of recurrent networks.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>

#include "operators/composites.h"

namespace hostdevice {
namespace {

using at::Tensor;

Tensor gates_with_bias(const Tensor& gates, const OptTensor& bias) {
  return is_defined(bias) ? gates + *bias : gates;
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell(
    const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx, const OptTensor& input_bias,
    const OptTensor& hidden_bias) {
  const auto hidden = cx.size(1);
  Tensor workspace = gates_with_bias(input_gates + hidden_gates, input_bias);
  if (is_defined(hidden_bias)) workspace.add_(*hidden_bias);
  const auto gate = [&](int64_t i) { return workspace.narrow(1, i * hidden, hidden); };
  Tensor in = gate(0).sigmoid_(), forget = gate(1).sigmoid_(), cell = gate(2).tanh_(), out = gate(3).sigmoid_();
  Tensor cy = (forget * cx).addcmul_(in, cell);
  Tensor hy = out * cy.tanh();
  return {hy, cy, workspace};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(
    const OptTensor& grad_hy, const OptTensor& grad_cy, const Tensor& cx, const Tensor& cy, const Tensor& workspace,
    bool has_bias) {
  if (!is_defined(grad_hy) && !is_defined(grad_cy)) return {};
  const auto hidden = cx.size(1);
  const auto gate = [&](int64_t i) { return workspace.narrow(1, i * hidden, hidden); };
  const Tensor in = gate(0), forget = gate(1), cell = gate(2), out = gate(3);
  const Tensor tanh_cy = cy.tanh();
  Tensor grad_out = at::zeros_like(cy), grad_c = is_defined(grad_cy) ? *grad_cy : at::zeros_like(cy);
  if (is_defined(grad_hy)) {
    grad_out = *grad_hy * tanh_cy;
    grad_c = grad_c + *grad_hy * out * (1 - tanh_cy * tanh_cy);
  }
  const Tensor grad_gates = at::cat(
      {grad_c * cell * in * (1 - in), grad_c * cx * forget * (1 - forget), grad_c * in * (1 - cell * cell),
       grad_out * out * (1 - out)},
      1);
  return {grad_gates, grad_c * forget, has_bias ? grad_gates.sum(0) : Tensor()};
}

std::tuple<Tensor, Tensor> gru_cell(
    const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx, const OptTensor& input_bias,
    const OptTensor& hidden_bias) {
  const auto ig = gates_with_bias(input_gates, input_bias).chunk(3, 1);
  const auto hg = gates_with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const Tensor reset = (ig[0] + hg[0]).sigmoid_(), update = (ig[1] + hg[1]).sigmoid_();
  const Tensor fresh = at::addcmul(ig[2], reset, hg[2]).tanh_();
  return {fresh + update * (hx - fresh), at::cat({reset, update, fresh, hx, hg[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(
    const Tensor& grad_hy, const Tensor& workspace, bool has_bias) {
  const auto w = workspace.chunk(5, 1);
  const Tensor &reset = w[0], &update = w[1], &fresh = w[2], &hx = w[3], &hn = w[4];
  const Tensor grad_fresh = grad_hy * (1 - update) * (1 - fresh * fresh);
  const Tensor grad_update = grad_hy * (hx - fresh) * update * (1 - update);
  const Tensor grad_reset = grad_fresh * hn * reset * (1 - reset);
  const Tensor grad_input = at::cat({grad_reset, grad_update, grad_fresh}, 1);
  const Tensor grad_hidden = at::cat({grad_reset, grad_update, grad_fresh * reset}, 1);
  return {
      grad_input, grad_hidden, grad_hy * update, has_bias ? grad_input.sum(0) : Tensor(),
      has_bias ? grad_hidden.sum(0) : Tensor()};
}

}  // namespace

void register_fused_recurrent_cells(Registrar& registrar) {
  registrar.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
  registrar.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstm_cell_backward));
  registrar.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
  registrar.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward));
}

}  // namespace hostdevice
