// Floating-point numbers that do not fit the integers they are converted to.
#pragma once

#include <ATen/core/TensorBody.h>

namespace hostdevice {

// Whether a copy turns floating-point numbers into integers, for which a GPU has rules of its own.
bool converts_to_integers(const at::Tensor& to, const at::Tensor& from);

// The copy, as a GPU makes it. Both tensors are the CPU's.
void convert_to_integers(at::Tensor& to, const at::Tensor& from);

}  // namespace hostdevice
