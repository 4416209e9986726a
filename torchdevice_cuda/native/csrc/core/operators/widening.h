// Types that are computed in a wider one and rounded once: half precision through float32, as CUDA accumulates.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <string>
#include <vector>

#include "operators/number_sums.h"
#include "operators/rows.h"

namespace hostdevice {

// The types of a row that are really widened: not those that this processor computes as quickly.
Types widened(const WidenedTypes& wide);

// From here on a family's operators of this type are left to the CPU's own kernels. Asked for before any is called.
void keep_narrow(const std::string& family, const std::string& type);

// A number as a type of half precision has it.
double as_kept(const c10::Scalar& number, c10::ScalarType narrow);

// The wide copies of one operator call. They are made in device memory.
class Widening {
 public:
  Widening(const Row& row, c10::DeviceIndex index)
      : op_(row.op), row_(row.wide), types_(widened(row.wide)), index_(index) {}

  // Looks at the types of the first `inputs` arguments, at arguments that are types, and flags about types. False: it
  // is to be computed as it is.
  bool ask(torch::jit::Stack& stack, size_t base, size_t inputs, const std::vector<uint16_t>& dtypes);
  // An argument, by its place; itself if its type is wide enough.
  at::Tensor argument(const at::Tensor& alias, bool written, size_t place);
  // The type that is widened; Undefined if none is.
  c10::ScalarType narrow() const {
    return narrow_;
  }
  // Where it takes no copies: computes the call of aliases on the stack, true. `fresh`: into none of its arguments.
  bool in_one_pass(bool fresh, torch::jit::Stack& stack, size_t base) const;
  // What was written into wide copies, rounded into what they are copies of.
  void write_back();
  // The place-th result, rounded; of a wide copy what it is a copy of.
  at::Tensor result(at::Tensor made, size_t place);

 private:
  bool ask_numbers(torch::jit::Stack& stack, size_t base, size_t inputs);

  struct Copy {
    at::Tensor narrow, wide;
    bool written;
  };

  const char* op_;
  const WidenedTypes& row_;
  Types types_;
  c10::DeviceIndex index_;
  bool keeps_wide_ = false, data_stays_ = false;
  c10::ScalarType narrow_ = c10::ScalarType::Undefined;
  std::optional<NumberSum> sum_;
  c10::SmallVector<Copy, 4> copies_;
  c10::SmallVector<c10::ScalarType, 8> given_;
};

}  // namespace hostdevice
