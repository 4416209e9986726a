// Attention as a program asks for it: torch.nn.functional.scaled_dot_product_attention.
#include <ATen/SDPBackend.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

#include "operators/composites.h"
#include "runtime/device.h"

namespace hostdevice {
namespace {

using at::Tensor;

// The same choice the CPU makes: its flash kernel where that applies, else the math. Both are differentiable.
Tensor attention(
    const Tensor& query, const Tensor& key, const Tensor& value, const OptTensor& mask, double dropout, bool causal,
    std::optional<double> scale, bool enable_gqa) {
  const bool nested = query.is_nested() || key.is_nested() || value.is_nested();
  OptTensor bias = mask;
  if (given(mask) && mask->scalar_type() == at::kBool) {
    bias = at::zeros_like(*mask, query.options().requires_grad(false))
               .masked_fill_(mask->logical_not(), -std::numeric_limits<double>::infinity());
  }
  if (kIsCuda && !nested) {
    const auto choice = at::_fused_sdp_choice(query, key, value, mask, dropout, causal, scale, enable_gqa);
    if (choice == static_cast<int64_t>(at::SDPBackend::flash_attention)) {
      // Since 2.15 it is chosen for heads without a batch, too: they are a batch of one.
      const bool batched = query.dim() == 4;
      const auto as_batch = [&](const Tensor& t) { return batched || t.dim() == 2 ? t : t.unsqueeze(0); };
      if (given(bias)) bias = as_batch(*bias);
      const auto out = std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(
          as_batch(query), as_batch(key), as_batch(value), dropout, causal, bias, scale));
      return batched ? out : out.squeeze(0);
    }
  }
  return std::get<0>(at::_scaled_dot_product_attention_math(
      query, key, value, bias, dropout, causal, std::nullopt, scale, enable_gqa));
}

#ifdef HOSTDEVICE_CUDA
// What a table of PyTorch's says of the device's choice of kernel, whatever arguments it is asked with.
template <class R, class... Args>
R math(Args...) {
  return static_cast<R>(at::SDPBackend::math);
}
template <class R, class... Args>
constexpr auto math_as(R (*)(Args...)) {
  return &math<R, Args...>;
}
#endif

}  // namespace

void register_attention(Registrar& registrar) {
#ifdef HOSTDEVICE_CUDA
  // Tracing asks it, with tensors that have no memory. The entry of a CUDA build would look at the GPU.
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(math_as(at::native::fused_sdp_choice_fn{}));
#endif
  registrar.impl("scaled_dot_product_attention", TORCH_FN(attention));
  // The stock composite asks a table for the device's choice of kernel; a CPU build has no entry for this one.
  Registrar autograd(kIsCuda ? c10::DispatchKey::AutogradCUDA : c10::DispatchKey::AutogradMPS);
  autograd.impl("scaled_dot_product_attention", TORCH_FN(attention));
}

}  // namespace hostdevice
