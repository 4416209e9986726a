// Reductions in the order of CUDA's kernel, so that results have a GPU's bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "operators/reduction_loops.h"

namespace hostdevice {

// The loops of the core.
extern const Reducer kSum, kSumOfSquares;

// What a reduction computes besides its order.
struct Reduced {
  Reducer reducer;
  bool averages = false;
  float factor = 1;         // the correction of a variance
  bool takes_root = false;  // for a standard deviation
  double more_than = 1;     // elements; the CPU's kernel warns of fewer
  at::Tensor* means = nullptr;
};

// Return the result, or none if the CPU's kernel computes it, or raises: other types and layouts than dense float32.
std::optional<at::Tensor> reduce_in_order(
    const at::Tensor& self, at::OptionalIntArrayRef dims, bool keeps_dims, std::optional<at::ScalarType> dtype,
    const Reduced& what);
// Call the CPU's kernel.
at::Tensor reduce_on_cpu(const char* name, const char* overload, torch::jit::Stack arguments);

}  // namespace hostdevice
