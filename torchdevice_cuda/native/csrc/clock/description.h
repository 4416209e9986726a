// A call of an operator as the model of times sees it: shapes, types and scalars.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <string>
#include <vector>

namespace hostdevice {

struct TensorDescription {
  std::vector<int64_t> sizes;    // of a nested tensor: the number of its elements
  std::vector<int64_t> strides;  // none if the tensor is contiguous
  bool is_on_host, is_pinned;
};
TensorDescription describe_tensor(const at::Tensor& t);

// Return a number that is equal for calls that take the same time.
uint64_t hash_call(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);

// Return whether the host waits for the call: it copies to or from memory that is not pinned, or blocks.
bool waits_for_copy(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);

// Whether this operator's products of float32 round to TF32; convolutions have cuDNN's flag.
bool uses_tf32(const std::string& name);

}  // namespace hostdevice
