// What profilers are told of copies.
#pragma once

#include <ATen/core/TensorBody.h>

namespace hostdevice {

// What CUPTI calls a copy that a GPU's copy engine makes; null if a kernel makes it: it converts, or moves elements.
const char* copied_as(const at::Tensor& self, const at::Tensor& src);

}  // namespace hostdevice
