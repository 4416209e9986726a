// PyTorch queries a dispatch stub for the kernel that computes an attention; the answer is in an operator of a part.
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice_ops.h>

#include "operators/composites.h"

namespace hostdevice {
namespace {

int64_t choose(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const OptTensor& mask, double dropout,
    bool causal, std::optional<double> scale, bool gqa) {
  // Use the device's key, because meta tensors query this stub, too.
  return at::_ops::_fused_sdp_choice::redispatch(
      c10::DispatchKeySet(kDense), query, key, value, mask, dropout, causal, scale, gqa);
}

}  // namespace

void install_attention_stub() {
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&choose);
}

}  // namespace hostdevice
