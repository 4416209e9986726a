// What differs between versions of PyTorch in the operators on lists of tensors.
#pragma once

#include "compat.h"

namespace hostdevice {

// Whether one kernel takes a norm of order 0: an H200 had several in 2.11, the sources of 2.13 have one.
inline constexpr bool kZeroNormAtOnce = HOSTDEVICE_TORCH_SINCE(2, 13);

}  // namespace hostdevice
