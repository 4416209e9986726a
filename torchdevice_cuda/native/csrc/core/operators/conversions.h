// Conversion of floating-point values that do not fit the integer type.
#pragma once

#include <ATen/core/TensorBody.h>

namespace hostdevice {

// Whether a copy converts floating-point values to integers, for which GPUs have their own rules.
bool converts_to_integers(const at::Tensor& to, const at::Tensor& from);

// Convert as a GPU does. Both are CPU tensors.
void convert_to_integers(at::Tensor& to, const at::Tensor& from);

}  // namespace hostdevice
