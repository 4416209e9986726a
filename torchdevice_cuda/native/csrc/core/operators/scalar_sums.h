// Half precision plus or minus a scalar, in float32 and in one pass; wide copies would need three.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <optional>
#include <string_view>

#include "operators/types.h"

namespace hostdevice {

// Return the scalar in a CPU tensor without dimensions. `item()` would call two operators.
c10::Scalar get_scalar(const at::Tensor& one);

// The position and sign of the tensor among a call's two arguments, and the scalar.
struct ScalarSum {
  size_t tensor;
  bool negated;
  float number;
};

// Return the sum that a call of `add`, `sub` or `rsub` computes; none if it is more than a tensor plus a scalar.
std::optional<ScalarSum> find_scalar_sum(
    std::string_view op, Types narrow, const torch::jit::Stack& stack, size_t base);

// Compute the sum for the arguments on the stack, in place or, if `fresh`, in a new tensor.
void add_scalar(const ScalarSum& sum, bool fresh, torch::jit::Stack& stack, size_t base);

}  // namespace hostdevice
