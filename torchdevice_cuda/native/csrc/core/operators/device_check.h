// Checks of arguments on different devices.
#pragma once

#include <ATen/core/stack.h>
#include <c10/macros/Macros.h>

#include "operators/operator_info.h"

namespace hostdevice {

// Check arguments, which start at `base`, that are on more than one device. Return if CUDA allows it; otherwise raise
// CUDA's error. `sparse`: for the kernel of sparse tensors.
C10_NOINLINE void check_devices(
    const c10::OperatorHandle& op, const OperatorInfo& info, const torch::jit::Stack& stack, size_t base, bool sparse);

}  // namespace hostdevice
