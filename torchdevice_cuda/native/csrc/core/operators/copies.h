// Names of copies in profiles.
#pragma once

#include <ATen/core/TensorBody.h>

namespace hostdevice {

// Return CUPTI's name of a copy by a GPU's copy engine; null if a kernel copies, because it converts or rearranges
// elements.
const char* get_copy_name(const at::Tensor& self, const at::Tensor& src);

}  // namespace hostdevice
