// Results of the right shapes without computing them, from PyTorch's meta kernels.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <utility>
#include <vector>

#include "runtime/device.h"

namespace hostdevice {

struct OperatorInfo;

// A call of an operator's meta kernel: its results, and its tensors with the arguments that they replace.
struct MetaCall {
  torch::jit::Stack results;
  std::vector<std::pair<at::Tensor, at::Tensor>> tensors;
};
// Throws what the meta kernel throws. The first call may take seconds: many meta kernels are written in Python.
MetaCall call_meta_kernel(const c10::OperatorHandle& op, const OperatorInfo& f, c10::ArrayRef<c10::IValue> arguments);

// Return uninitialized results with the shapes that PyTorch's meta kernels compute. Throws what they throw.
torch::jit::Stack make_results_by_shape(
    const c10::OperatorHandle& op, const OperatorInfo& f, c10::ArrayRef<c10::IValue> arguments, c10::DeviceIndex index);

}  // namespace hostdevice
