// Types that are computed in a wider one and rounded once: half precision through float32, as CUDA accumulates.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <string>
#include <vector>

#include "operators/rows.h"
#include "operators/scalar_sums.h"

namespace hostdevice {

// Return the types of a row that are widened: without those that this processor computes as fast.
Types find_widened_types(const WidenedTypes& wide);

// From now on compute a family's operators of this type with the CPU's own kernels. Call before the first operator.
void keep_narrow(const std::string& family, const std::string& type);

// Round a scalar to half precision.
double round_scalar(const c10::Scalar& number, c10::ScalarType narrow);

// The wide copies of one operator call, in device memory.
class Widening {
 public:
  Widening(const Row& row, c10::DeviceIndex index)
      : op_(row.op), row_(row.wide), types_(find_widened_types(row.wide)), index_(index) {}

  // Examine the types of the first `inputs` arguments, dtype arguments, and flags about types. Return false if nothing
  // is to be widened.
  bool examine(torch::jit::Stack& stack, size_t base, size_t inputs, const std::vector<uint16_t>& dtypes);
  // Return an argument, given by its position, in the wide type; the argument itself if its type is wide enough.
  at::Tensor argument(const at::Tensor& alias, bool written, size_t position);
  // The type that is widened; Undefined if none is.
  c10::ScalarType narrow() const {
    return narrow_;
  }
  // If the call needs no copies, compute it on the aliases on the stack and return true. `fresh`: into a new tensor.
  bool compute_in_one_pass(bool fresh, torch::jit::Stack& stack, size_t base) const;
  // Round wide copies that were written into their originals.
  void write_back();
  // Return the place-th result, rounded; for a wide copy, its original.
  at::Tensor result(at::Tensor made, size_t position);

 private:
  bool examine_scalars(torch::jit::Stack& stack, size_t base, size_t inputs);

  struct Copy {
    at::Tensor narrow, wide;
    bool written;
  };

  const char* op_;
  const WidenedTypes& row_;
  Types types_;
  c10::DeviceIndex index_;
  bool keeps_wide_ = false, keeps_data_narrow_ = false;
  c10::ScalarType narrow_ = c10::ScalarType::Undefined;
  std::optional<ScalarSum> sum_;
  c10::SmallVector<Copy, 4> copies_;
  c10::SmallVector<c10::ScalarType, 8> argument_types_;
};

}  // namespace hostdevice
