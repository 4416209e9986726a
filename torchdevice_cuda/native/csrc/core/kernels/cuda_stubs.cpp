// The kernels that PyTorch finds through dispatch stubs and not by an operator.
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice_ops.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/tensor.h>

#include <vector>

#include "operators/composites.h"

namespace at::native {

// Its header is in no wheel.
using flatten_indices_fn = Tensor (*)(const Tensor& indices, IntArrayRef size);
DECLARE_DISPATCH(flatten_indices_fn, flatten_indices_stub)

}  // namespace at::native

namespace hostdevice {
namespace {

// The choice of an attention is in an operator of a part.
int64_t choose(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const OptTensor& mask, double dropout,
    bool causal, std::optional<double> scale, bool gqa) {
  // Use the device's key, because meta tensors query this stub, too.
  return at::_ops::_fused_sdp_choice::redispatch(
      c10::DispatchKeySet(kDense), query, key, value, mask, dropout, causal, scale, gqa);
}

// Return the positions of sparse elements in a tensor of this size, row by row.
at::Tensor flatten(const at::Tensor& indices, at::IntArrayRef size) {
  std::vector<int64_t> strides(size.size(), 1);
  for (size_t i = size.size(); i > 1; i--) strides[i - 2] = strides[i - 1] * size[i - 1];
  const auto rows = at::tensor(strides, indices.options().dtype(at::kLong)).unsqueeze(1);
  return at::mul(indices, rows).sum(0);
}

}  // namespace

void install_stubs() {
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&choose);
  at::native::flatten_indices_stub.set_cuda_dispatch_ptr(&flatten);
}

}  // namespace hostdevice
