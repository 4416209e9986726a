// Arguments on devices that do not belong together.
#pragma once

#include <ATen/core/stack.h>
#include <c10/macros/Macros.h>

#include "operators/facts.h"

namespace hostdevice {

// Called when the arguments, which start at `base`, live on more than one device. Returns if that is allowed; says what
// CUDA says if not; `sparse`: its kernel for sparse tensors.
C10_NOINLINE void check_devices(
    const c10::OperatorHandle& op, const Facts& facts, const torch::jit::Stack& stack, size_t base, bool sparse);

}  // namespace hostdevice
