// The results of an operator before it is computed: their shapes, strides and types, and which of them are arguments.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>
#include <c10/util/typeid.h>

#include <memory>
#include <vector>

#include "operators/operator_info.h"
#include "runtime/captured_allocations.h"
#include "runtime/device.h"

namespace hostdevice {

struct InferredTensor {
  static constexpr int kUndefined = -2, kNew = -1;
  int argument = kNew;  // the position of the one that it is among the call's device tensors
  caffe2::TypeMeta dtype;
  c10::SmallVector<int64_t, 6> sizes, strides;
};
// One result: a tensor, a list of tensors, or a value that does not depend on elements.
struct InferredResult {
  Kind kind = Kind::Tensor;
  std::vector<InferredTensor> tensors;
  c10::IValue value;  // for Kind::Other
};
struct Inferred {
  std::vector<InferredResult> results;
  // The draws of random numbers: their offsets from the first, and how far they advance the generator.
  std::vector<uint64_t> draws;
  uint64_t words = 0;
};

// Return what is known of a call's results. All its tensors are strided, and on one device or single elements on the
// host. Null: they depend on elements, or nothing is known. Cached by the operator and all of its arguments but
// elements.
//
// A call with little memory, and one that draws random numbers, is tried with zeros on the host's memory: this shows
// what the device's kernel returns, and which calls it refuses. For others PyTorch's meta kernels are used.
std::shared_ptr<const Inferred> infer(
    const c10::OperatorHandle& op, const OperatorInfo& f, c10::DispatchKeySet keys, c10::DeviceIndex index,
    c10::ArrayRef<c10::IValue> arguments);

// Allocate the results of a call on the current stream, without writing to them.
torch::jit::Stack make_results(
    const Inferred& inferred, const OperatorInfo& f, c10::ArrayRef<c10::IValue> arguments, c10::DeviceIndex index);

// Advance the generator of a call by its draws, and return their positions.
std::vector<CapturedAllocations::Draw> reserve_draws(
    const Inferred& inferred, c10::ArrayRef<c10::IValue> arguments, c10::DeviceIndex index);

}  // namespace hostdevice
