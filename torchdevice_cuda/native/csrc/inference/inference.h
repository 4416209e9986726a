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
  int argument = kNew;   // the position of the one that it is among the call's device tensors
  bool is_view = false;  // of that argument
  int64_t offset = 0;    // of a view
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
  std::vector<InferredTensor> resized;  // arguments that the call resizes
  bool is_plain = true;                 // no argument is resized, and no two results share memory
};

// What is tried first. kTrying: a call with little memory, and one that draws random numbers, is tried with zeros on
// the host's memory: this shows what the device's kernel returns, and which calls it refuses. For others PyTorch's meta
// kernels are used, and any call that they refuse is unknown. kShapes: meta kernels are used wherever there is one;
// other calls are tried if they have little memory. Then an error of the call itself is thrown.
enum class InferBy : uint8_t { kTrying, kShapes };

// Return what is known of a call's results. All its tensors are strided, and on one device or single elements on the
// host. Null: they depend on elements, or nothing is known. Cached by the operator and all of its arguments but
// elements.
std::shared_ptr<const Inferred> infer(
    const c10::OperatorHandle& op, const OperatorInfo& f, c10::DispatchKeySet keys, c10::DeviceIndex index,
    c10::ArrayRef<c10::IValue> arguments, InferBy by);

// List the device tensors of a call, each once.
std::vector<at::Tensor> list_device_tensors(const OperatorInfo& f, c10::ArrayRef<c10::IValue> arguments);

// Allocate the results of a call on the current stream, without writing to them.
torch::jit::Stack make_results(
    const Inferred& inferred, const OperatorInfo& f, c10::ArrayRef<c10::IValue> arguments, c10::DeviceIndex index);

// Advance the generator of a call by its draws, and return their positions.
std::vector<CapturedAllocations::Draw> reserve_draws(
    const Inferred& inferred, c10::ArrayRef<c10::IValue> arguments, c10::DeviceIndex index);

}  // namespace hostdevice
