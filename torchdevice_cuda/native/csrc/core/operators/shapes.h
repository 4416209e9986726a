// Uninitialized results of the right shapes, for a call that fails because of its arguments' elements.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "runtime/device.h"

namespace hostdevice {

struct OperatorInfo;

// Return results with the shapes that PyTorch's meta kernels compute. Throws what they throw.
torch::jit::Stack make_results_by_shape(
    const c10::OperatorHandle& op, const OperatorInfo& f, c10::ArrayRef<c10::IValue> arguments, c10::DeviceIndex index);

}  // namespace hostdevice
