// Selects the CUDA kernel for an attention: for torch.nn.functional.scaled_dot_product_attention, through one of
// PyTorch's dispatch stubs, and for programs (torch.backends.cuda.can_use_flash_attention and similar functions).
#pragma once

#include <ATen/SDPBackend.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>

#include "operators/composites.h"

namespace hostdevice {

// Return whether a kernel accepts these tensors. `debug`: warn with the first reason why not.
bool takes_attention(at::SDPBackend kernel, const sdp::sdp_params& params, bool debug);

}  // namespace hostdevice
