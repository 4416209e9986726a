// A call of an operator as the model of times sees it: shapes, types and scalars.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstdint>

namespace hostdevice {

// Return a number that is equal for calls that take the same time.
uint64_t hash_call(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);

// Return whether the host waits for the call: it copies to or from memory that is not pinned, or blocks.
bool waits_for_copy(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);

// Whether products of float32 round to TF32.
bool uses_tf32();

}  // namespace hostdevice
