// torch.nn.functional.scaled_dot_product_attention on an Apple GPU. CUDA uses PyTorch's own function over this
// library's choice of kernels (attention_choice).
#include <ATen/SDPBackend.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

#include "operators/composites.h"
#include "runtime/device.h"

namespace hostdevice {
namespace {

using at::Tensor;

// Compute with operators that are differentiable.
Tensor attention(
    const Tensor& query, const Tensor& key, const Tensor& value, const OptTensor& mask, double dropout, bool causal,
    std::optional<double> scale, bool enable_gqa) {
  OptTensor bias = mask;
  if (is_defined(mask) && mask->scalar_type() == at::kBool) {
    bias = at::zeros_like(*mask, query.options().requires_grad(false))
               .masked_fill_(mask->logical_not(), -std::numeric_limits<double>::infinity());
  }
  return std::get<0>(at::_scaled_dot_product_attention_math(
      query, key, value, bias, dropout, causal, std::nullopt, scale, enable_gqa));
}

}  // namespace

void register_attention(Registrar& registrar) {
  registrar.impl("scaled_dot_product_attention", TORCH_FN(attention));
  // The stock composite queries a dispatch stub for the device's choice of kernel; CPU builds have no entry for MPS.
  Registrar autograd(c10::DispatchKey::AutogradMPS);
  autograd.impl("scaled_dot_product_attention", TORCH_FN(attention));
}

}  // namespace hostdevice
