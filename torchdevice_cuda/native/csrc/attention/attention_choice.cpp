// The rules of PyTorch 2.13 (native/transformers/cuda/sdp_utils.cpp). Rules in PyTorch's header for all devices are
// called directly.
#include "attention/attention_choice.h"

#include <ATen/Context.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/native/transformers/attention.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/util/env.h>

#include <array>
#include <cmath>

#include "runtime/capability.h"

namespace hostdevice {
namespace {

using at::SDPBackend;
using at::Tensor;
using sdp::sdp_params;
using Rule = bool (*)(const sdp_params& params, bool debug);

// cuDNN releases after this one are correct for sequences of any length.
constexpr int kCudnnComesFirst = 91500;

bool is_within_capability(int first, int last) {
  const int claimed = g_capability.major * 10 + g_capability.minor;
  return claimed >= first && claimed <= last;
}
bool is_half(const sdp_params& p) {
  return p.query.dtype() == at::kHalf || p.query.dtype() == at::kBFloat16;
}
// Return false; with `debug`, warn with the reason.
template <class... Message>
bool warn_refused(bool debug, const Message&... message) {
  if (debug) TORCH_WARN(message...);
  return false;
}

bool is_on_cuda(const sdp_params& p, bool debug) {
  return p.query.device().type() == c10::DeviceType::CUDA ||
      warn_refused(
             debug, "All tensors need to be on cuda device. Got query on device: ", p.query.device(),
             ", key on device: ", p.key.device(), ", value on device: ", p.value.device());
}
// There are no fused kernels for strided nested tensors here: their attention is computed by separate operators.
bool is_not_strided_nested(const sdp_params& p, bool debug) {
  const auto is_strided_nested = [](const Tensor& t) { return t.is_nested() && t.layout() == at::kStrided; };
  return !(is_strided_nested(p.query) || is_strided_nested(p.key) || is_strided_nested(p.value)) ||
      warn_refused(debug, "The virtual GPU has no fused kernels for NestedTensor inputs.");
}
bool is_dense(const sdp_params& p, bool debug) {
  return sdp::has_only_dense_inputs(p) ||
      warn_refused(debug, "The virtual GPU has no fused kernels for NestedTensor inputs.");
}
// Since PyTorch 2.15 the rules also accept tensors without a batch dimension; the kernels here do not.
bool is_batched(const sdp_params& p, bool) {
  return p.query.dim() == 4;
}
bool is_of_type(const sdp_params& p, bool wide, bool debug) {
  const bool recent = g_capability.major >= 8;
  if (wide && recent)
    return sdp::check_tensor_dtype(p, std::array<at::ScalarType, 3>{at::kHalf, at::kFloat, at::kBFloat16}, debug);
  if (wide) return sdp::check_tensor_dtype(p, std::array<at::ScalarType, 2>{at::kHalf, at::kFloat}, debug);
  if (recent) return sdp::check_tensor_dtype(p, std::array<at::ScalarType, 2>{at::kHalf, at::kBFloat16}, debug);
  return sdp::check_tensor_dtype(p, std::array<at::ScalarType, 1>{at::kHalf}, debug);
}
bool is_half_type(const sdp_params& p, bool debug) {
  return is_of_type(p, false, debug);
}
bool is_wide_type(const sdp_params& p, bool debug) {
  return is_of_type(p, true, debug);
}
template <class Message>
bool has_architecture(int first, const Message& message, bool debug) {
  constexpr int kNewest = 121;
  return is_within_capability(first, kNewest) ||
      warn_refused(debug, message, " Attempting to run on a sm ", g_capability.major, ".", g_capability.minor, " gpu.");
}

// ---- flash ---------------------------------------------------------------------------------------------------------

bool has_flash_heads(const sdp_params& p, bool debug) {
  constexpr int64_t kMost = 256;
  const auto q = p.query.sym_size(-1), k = p.key.sym_size(-1), v = p.value.sym_size(-1);
  return (q == k && q == v && q <= kMost) ||
      warn_refused(
             debug,
             "Flash attention requires q,k,v to have the same last dimension and to be less than or equal to 256. Got "
             "Query.size(-1): ",
             q, ", Key.size(-1): ", k, ", Value.size(-1): ", v, " instead.");
}
bool has_flash_gpu(const sdp_params&, bool debug) {
  return has_architecture(80, "Flash attention only supports gpu architectures in the range [sm80, sm121].", debug);
}
bool has_flash_gradient(const sdp_params& p, bool debug) {
  constexpr int64_t kSome = 192, kMore = 224;
  if (!sdp::input_requires_grad(p) || !(is_within_capability(86, 89) || is_within_capability(120, 121))) return true;
  const auto size = p.query.sym_size(-1);
  if (!(size > kSome && (size <= kMore || p.dropout > 0.0))) return true;
  return warn_refused(
      debug,
      "Flash attention currently doesn't support training with head_dim \u2208 (192, 224] or (head_dim \u2208 (224, "
      "256] and dropout > 0.0) on gpu architectures in the range[sm86, sm89].Attempting to run with dropout set to: ",
      p.dropout, "and head_dim: ", size, " on a sm ", g_capability.major, ".", g_capability.minor, " gpu.");
}
bool is_square_if_causal(const sdp_params& p, bool debug) {
  const auto q = p.query.sym_size(-2), k = p.key.sym_size(-2);
  return !p.is_causal || q == k ||
      warn_refused(
          debug, "Flash attention does not support the is_causal flag when seqlen_q != seqlen_k. Got seqlen_q: ", q,
          " seqlen_k: ", k,
          ". If you would like to use causal attention with non-square masks, please see CausalAttnMask.");
}

// ---- memory-efficient ----------------------------------------------------------------------------------------------

bool has_efficient_gpu(const sdp_params&, bool debug) {
  return has_architecture(
      50, "Mem Efficient Attention only supports gpu architectures in the range [sm50, sm121].", debug);
}
bool has_efficient_heads(const sdp_params& p, bool debug) {
  // The alignment in elements: the size of one load if there are tensor cores for the type.
  const bool half = is_half(p), cores = g_capability.major >= 8 || (g_capability.major == 7 && half);
  const int64_t alignment = cores ? (half ? 8 : 4) : 1;
  const auto q = p.query.sym_size(-1), k = p.key.sym_size(-1), v = p.value.sym_size(-1);
  return (q == k && q % alignment == 0 && q > 0 && v % alignment == 0 && v > 0) ||
      warn_refused(
             debug, "Mem efficient attention requires last dimension of inputs to be divisible by ", alignment,
             ". Got Query.size(-1): ", q, ", Key.size(-1): ", k, ", Value.size(-1): ", v, " instead.");
}

// ---- cuDNN ---------------------------------------------------------------------------------------------------------

bool is_cudnn_enabled(const sdp_params&, bool debug) {
  return at::globalContext().userEnabledCuDNNSDP() || warn_refused(debug, "cuDNN attention has been runtime disabled.");
}
bool may_be_indeterminate(const sdp_params&, bool debug) {
  const auto& context = at::globalContext();
  return !context.deterministicAlgorithms() || context.deterministicAlgorithmsWarnOnly() ||
      warn_refused(debug, "cuDNN SDPA is not deterministic.");
}
bool has_cudnn_gpu(const sdp_params&, bool debug) {
  return has_architecture(80, "cuDNN MHA only supports gpu architectures in the range [sm80, sm121].", debug);
}
bool has_cudnn_dropout(const sdp_params& p, bool debug) {
  const double sixteenths = p.dropout * 16.0;
  return sixteenths == std::floor(sixteenths) ||
      warn_refused(
             debug,
             "cuDNN dropout probability resolution is limited to 1/16.Use a dropout probability that is a multiple of "
             "1/16 to select the cuDNN backend");
}
bool has_cudnn_sizes(const sdp_params& p, bool debug) {
  constexpr int64_t kMostHeads = 65535;
  const auto batch = p.query.sym_size(0), heads = p.query.sym_size(1);
  if (batch > kMostHeads || heads > kMostHeads)
    return warn_refused(
        debug, "cuDNN SDPA does not support batch size or num_heads greater than ", kMostHeads,
        ". Got batch size: ", batch, ", num_heads: ", heads);
  const auto qk = p.query.sym_size(3), v = p.value.sym_size(3);
  int64_t most = 128;
  if (g_capability.cudnn >= 91000 && is_within_capability(90, 90)) most = 256;
  if (g_capability.cudnn >= 91100 && g_capability.major == 10 && qk == 192 && v == 128) most = 192;
  if (qk > most || v > most) return warn_refused(debug, "head_dim should be no more than ", most);
  if (qk % 8 != 0 || v % 8 != 0) return warn_refused(debug, "head_dim should be a multiple of 8");
  if (p.key.sym_size(2) == 1) return warn_refused(debug, "cudnn SDPA does not support key/value sequence length 1.");
  if (p.query.sym_size(2) == 1 && p.dropout != 0.0)
    return warn_refused(debug, "cudnn SDPA does not support query sequence length 1 with dropout.");
  return true;
}

constexpr Rule kFlash[] = {
    &sdp::check_runtime_disabled_flash,
    &is_on_cuda,
    &is_not_strided_nested,
    &sdp::check_tensor_shapes,
    &sdp::check_for_attn_mask,
    &has_flash_heads,
    &has_flash_gpu,
    &has_flash_gradient,
    &is_square_if_causal,
    &is_half_type,
};
// Further rules for dense tensors. The code that handles jagged tensors checks their sequences itself.
constexpr Rule kDenseFlash[] = {
    &is_batched,
    &sdp::check_batch_size_and_num_heads_dense<true>,
    &sdp::check_nonzero_sequence_lengths_dense,
    &sdp::check_last_dim_stride_equals_1_dense<true>,
};
constexpr Rule kEfficient[] = {
    &sdp::check_runtime_disabled_mem_efficient,
    &is_on_cuda,
    &is_not_strided_nested,
    &has_efficient_gpu,
    &sdp::check_tensor_shapes,
    &has_efficient_heads,
    &is_wide_type,
};
constexpr Rule kDenseEfficient[] = {
    &is_batched,
    &sdp::check_nonzero_sequence_lengths_dense,
    &sdp::check_last_dim_stride_equals_1_dense<false>,
    &sdp::check_batch_size_and_num_heads_dense<false>,
};
// In later releases, this rule has a parameter that allows key and value to have different numbers of heads; in 2.6 it
// has none. Select by the template, not by the version.
template <bool kGrouped, bool kAlike>
constexpr auto select_heads_rule(int) -> decltype(&sdp::check_batch_size_and_num_heads_dense<kGrouped, kAlike>) {
  return &sdp::check_batch_size_and_num_heads_dense<kGrouped, kAlike>;
}
template <bool kGrouped, bool>
constexpr auto select_heads_rule(long) -> decltype(&sdp::check_batch_size_and_num_heads_dense<kGrouped>) {
  return &sdp::check_batch_size_and_num_heads_dense<kGrouped>;
}

constexpr Rule kCudnn[] = {
    &is_cudnn_enabled,
    &is_on_cuda,
    &is_dense,
    &sdp::check_tensor_shapes,
    &is_batched,
    &may_be_indeterminate,
    &is_half_type,
    &sdp::check_attn_mask_shape,
    &has_cudnn_gpu,
    &has_cudnn_dropout,
    &sdp::check_nonzero_sequence_lengths_dense,
    &sdp::check_last_dim_stride_equals_1_dense<true>,
    select_heads_rule<true, false>(0),
    &has_cudnn_sizes,
};

template <size_t kRules>
bool all_hold(const Rule (&rules)[kRules], const sdp_params& params, bool debug) {
  for (const auto rule : rules)
    if (!rule(params, debug)) return false;
  return true;
}
template <size_t kRules, size_t kDenseRules>
bool all_hold(const Rule (&rules)[kRules], const Rule (&dense)[kDenseRules], const sdp_params& params, bool debug) {
  return all_hold(rules, params, debug) && (!sdp::has_only_dense_inputs(params) || all_hold(dense, params, debug));
}

// Return the order in which the kernels are tried: the program's, or this GPU's default.
auto get_priority_order() {
  static const bool settled = [] {
    const bool may_come_first = c10::utils::check_env("TORCH_CUDNN_SDPA_DEPRIORITIZED") != true;
    const bool recent = g_capability.cudnn > kCudnnComesFirst;
    if (may_come_first && recent && (g_capability.major == 9 || g_capability.major == 10)) {
      const auto number = [](SDPBackend kernel) { return static_cast<int64_t>(kernel); };
      at::globalContext().setSDPPriorityOrder(
          {number(SDPBackend::cudnn_attention), number(SDPBackend::flash_attention),
           number(SDPBackend::efficient_attention), number(SDPBackend::math)});
    }
    return true;
  }();
  static_cast<void>(settled);
  return at::globalContext().sDPPriorityOrder();
}

// Compiled code cannot draw like the fused kernels: it applies dropout as a separate step.
bool is_traced_with_dropout(const Tensor& query, double dropout) {
  return dropout > 0.0 && at::isTensorSubclassLike(query);
}

int64_t choose(
    const Tensor& query, const Tensor& key, const Tensor& value, const OptTensor& mask, double dropout, bool causal,
    std::optional<double>, bool enable_gqa) {
  const sdp_params params{query, key, value, mask, dropout, causal, enable_gqa};
  const auto& context = at::globalContext();
  TORCH_CHECK(
      context.userEnabledMathSDP() || context.userEnabledFlashSDP() || context.userEnabledMemEfficientSDP() ||
          context.userEnabledCuDNNSDP(),
      "No viable backend for scaled_dot_product_attention was found. This is likely due to turning off both the math "
      "kernel and the fused kernels.");
  if (context.userEnabledMathSDP() && is_traced_with_dropout(query, dropout))
    return static_cast<int64_t>(SDPBackend::math);
  for (const auto kernel : get_priority_order()) {
    const bool taken =
        kernel == SDPBackend::math ? context.userEnabledMathSDP() : takes_attention(kernel, params, false);
    if (taken) return static_cast<int64_t>(kernel);
  }
  TORCH_WARN("Memory efficient kernel not used because:");
  takes_attention(SDPBackend::efficient_attention, params, true);
  TORCH_WARN("Flash attention kernel not used because:");
  takes_attention(SDPBackend::flash_attention, params, true);
  TORCH_WARN("cuDNN attention kernel not used because:");
  takes_attention(SDPBackend::cudnn_attention, params, true);
  TORCH_CHECK(false, "No available kernel. Aborting execution.");
}

}  // namespace

bool takes_attention(SDPBackend kernel, const sdp_params& params, bool debug) {
  switch (kernel) {
    case SDPBackend::flash_attention:
      return all_hold(kFlash, kDenseFlash, params, debug);
    case SDPBackend::efficient_attention:
      return all_hold(kEfficient, kDenseEfficient, params, debug);
    case SDPBackend::cudnn_attention:
      return all_hold(kCudnn, params, debug);
    default:
      return false;
  }
}

void register_attention_choice(Registrar& registrar) {
  registrar.on_host("_fused_sdp_choice", TORCH_FN(choose));
}

}  // namespace hostdevice
