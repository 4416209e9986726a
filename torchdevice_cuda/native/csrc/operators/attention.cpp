// Attention as a program asks for it: torch.nn.functional.scaled_dot_product_attention.
#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

#include "operators/composites.h"
#ifdef HOSTDEVICE_CUDA
#include "operators/random.h"
#endif
#include "runtime/device.h"

namespace hostdevice {
namespace {

using at::Tensor;

// Which of CUDA's kernels the program allows (torch.nn.attention.sdpa_kernel), and whether one of them takes these
// tensors. All of them are computed alike here; the limits are those of a GPU of today.
void check_allowed(const Tensor& query, const OptTensor& mask) {
  const auto& context = at::globalContext();
  const bool flash = context.userEnabledFlashSDP(), cudnn = context.userEnabledCuDNNSDP();
  const bool efficient = context.userEnabledMemEfficientSDP();
  TORCH_CHECK(
      flash || cudnn || efficient,
      "No viable backend for scaled_dot_product_attention was found. This is likely due to turning off both the math "
      "kernel and the fused kernels.");
  const auto type = query.scalar_type();
  const bool half = type == at::kHalf || type == at::kBFloat16;
  TORCH_CHECK(query.dim() == 4 || kFusedAttentionWithoutBatch, "No available kernel. Aborting execution.");
  TORCH_CHECK(
      (half && ((flash && !given(mask)) || cudnn || efficient)) || (efficient && type == at::kFloat),
      "No available kernel. Aborting execution.");
}

// As CUDA does, whichever kernel it is.
void check_attended(const Tensor& query, const Tensor& key, const Tensor& value, const OptTensor& mask) {
  TORCH_CHECK(
      query.dtype() == key.dtype() && query.dtype() == value.dtype(),
      "Expected query, key, and value to have the same dtype, but got query.dtype: ", query.dtype(),
      " key.dtype: ", key.dtype(), " and value.dtype: ", value.dtype(), " instead.");
  if (!given(mask)) return;
  const auto type = mask->scalar_type();
  TORCH_CHECK(
      type == at::kFloat || type == at::kBool || mask->dtype() == query.dtype(),
      "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: ", mask->dtype(),
      " and  query.dtype: ", query.dtype(), " instead.");
}

// Whether the CPU's flash kernel computes this; asked where PyTorch's own choice would insist on the math.
bool cpu_flash_takes(
    const Tensor& query, const Tensor& key, const Tensor& value, const OptTensor& mask, double dropout) {
  const auto plain = [&](const Tensor& t) { return t.stride(-1) == 1 && t.numel() > 0 && t.size(1) == query.size(1); };
  return dropout == 0.0 && query.size(-1) == value.size(-1) && plain(query) && plain(key) && plain(value) &&
      !(given(mask) && mask->requires_grad());
}

#ifdef HOSTDEVICE_CUDA
struct Silent final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

// Whether CUDA has its memory-efficient kernel compute this, whose dropout is drawn otherwise than a layer's.
bool drops_in_sequence(const Tensor& query, const Tensor& key, const Tensor& value) {
  const auto type = query.scalar_type();
  const int64_t aligned = type == at::kFloat ? 4 : type == at::kHalf || type == at::kBFloat16 ? 8 : 0;
  const auto plain = [&](const Tensor& t) {
    return t.dim() == 4 && t.size(1) == query.size(1) && t.stride(-1) == 1 && t.size(-1) % aligned == 0 && t.numel();
  };
  return aligned && at::globalContext().userEnabledMemEfficientSDP() && plain(query) && plain(key) && plain(value) &&
      !at::isTensorSubclassLike(query);
}
#endif

// The same choice the CPU makes: its flash kernel where that applies, else the math. Both are differentiable.
Tensor attention(
    const Tensor& query, const Tensor& key, const Tensor& value, const OptTensor& mask, double dropout, bool causal,
    std::optional<double> scale, bool enable_gqa) {
  const bool nested = query.is_nested() || key.is_nested() || value.is_nested();
  OptTensor bias = mask;
  if (kIsCuda) check_attended(query, key, value, mask);
  if (given(mask) && mask->scalar_type() == at::kBool) {
    bias = at::zeros_like(*mask, query.options().requires_grad(false))
               .masked_fill_(mask->logical_not(), -std::numeric_limits<double>::infinity());
  }
  if (kIsCuda && !nested) {
    const bool free = at::globalContext().userEnabledMathSDP(), batched = query.dim() == 4;
    if (!free) check_allowed(query, mask);
    const bool flash = free ? at::_fused_sdp_choice(query, key, value, mask, dropout, causal, scale, enable_gqa) ==
            static_cast<int64_t>(at::SDPBackend::flash_attention)
                            : batched && cpu_flash_takes(query, key, value, mask, dropout);
    // CUDA has no fused kernel of float64, and the math can be differentiated twice.
    if (flash && query.scalar_type() != at::kDouble) {
      // Since 2.15 it is chosen for heads without a batch, too: they are a batch of one.
      const auto as_batch = [&](const Tensor& t) { return batched || t.dim() == 2 ? t : t.unsqueeze(0); };
      if (given(bias)) bias = as_batch(*bias);
      const auto out = std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(
          as_batch(query), as_batch(key), as_batch(value), dropout, causal, bias, scale));
      return batched ? out : out.squeeze(0);
    }
  }
  OptTensor kept;
#ifdef HOSTDEVICE_CUDA
  if (dropout > 0 && dropout < 1 && !nested && drops_in_sequence(query, key, value))
    kept = draw_attention_mask(query, key.size(2), dropout).kept;
  // Masks are for tests, it would warn.
  Silent silent;
  const c10::WarningUtils::WarningHandlerGuard quiet(kept ? &silent : c10::WarningUtils::get_warning_handler());
#endif
  return std::get<0>(
      at::_scaled_dot_product_attention_math(query, key, value, bias, dropout, causal, kept, scale, enable_gqa));
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
