// PyTorch asks through a table which kernel computes an attention; the operator, which is of a part, knows.
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice_ops.h>

#include "operators/composites.h"

namespace hostdevice {
namespace {

int64_t choose(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const OptTensor& mask, double dropout,
    bool causal, std::optional<double> scale, bool gqa) {
  // At the device's key: tensors without memory ask here, too.
  return at::_ops::_fused_sdp_choice::redispatch(
      c10::DispatchKeySet(kDense), query, key, value, mask, dropout, causal, scale, gqa);
}

}  // namespace

void install_attention_stub() {
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&choose);
}

}  // namespace hostdevice
