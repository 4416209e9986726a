// Half precision plus or minus one number, in float32 and in one pass: with wide copies it would be three.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <optional>
#include <string_view>

#include "operators/types.h"

namespace hostdevice {

// The number in a tensor of the CPU's that has no dimensions. `item()` is a call of two operators.
c10::Scalar number_of(const at::Tensor& one);

// Of a call's two arguments the one that is a tensor, with its sign, and the number.
struct NumberSum {
  size_t tensor;
  bool negated;
  float number;
};

// What a call of `add`, `sub` or `rsub` comes to, if it is no more than that.
std::optional<NumberSum> number_sum(std::string_view op, Types narrow, const torch::jit::Stack& stack, size_t base);

// The sum for the call's arguments on the stack; in the tensor itself or, if `fresh`, in a new one.
void add_number(const NumberSum& sum, bool fresh, torch::jit::Stack& stack, size_t base);

}  // namespace hostdevice
