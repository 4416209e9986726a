// Results of a call that could not be made, for what is in its arguments: memory of the right shapes.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "runtime/device.h"

namespace hostdevice {

struct Facts;

// What the call returns, as PyTorch's kernels without memory know it. Raises what they raise.
torch::jit::Stack results_by_shape(
    const c10::OperatorHandle& op, const Facts& f, c10::ArrayRef<c10::IValue> arguments, c10::DeviceIndex index);

}  // namespace hostdevice
