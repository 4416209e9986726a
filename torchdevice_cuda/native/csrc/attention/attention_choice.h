// Which of CUDA's kernels computes an attention: asked by torch.nn.functional.scaled_dot_product_attention through a
// table of PyTorch's, and by programs (torch.backends.cuda.can_use_flash_attention and its like).
#pragma once

#include <ATen/SDPBackend.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>

#include "operators/composites.h"

namespace hostdevice {

// Whether a kernel takes these tensors. `debug`: it warns of the first thing that it does not take.
bool takes_attention(at::SDPBackend kernel, const sdp::sdp_params& asked, bool debug);

}  // namespace hostdevice
