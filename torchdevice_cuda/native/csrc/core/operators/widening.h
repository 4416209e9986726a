// Types that are computed in a wider one and rounded once: half precision through float32, as CUDA accumulates.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operators/number_sums.h"
#include "operators/types.h"

namespace hostdevice {

// What is asked together whether this processor is quick with half precision. The CPU's own kernel computes where it
// is.
enum class Family : uint8_t {
  Product,
  Convolution,
  ConvolutionGradient,
  Attention,
  AttentionGradient,
  Mixed,       // only beside a first argument that is wide
  Crossing,    // only from a narrow type into a wide one, and back
  Parameters,  // beside a narrow weight the weights alone: then the CPU's kernel keeps its statistics wide, as CUDA's
  Numbers,     // only beside a number that the narrow type has not: CUDA keeps it as it is. Complex halves always
  Always,      // there is no kernel, or its results have other types than CUDA's
};

// Where the CPU's kernel rounds a number before it computes with it. Some hand a second one on as the first, unless it
// is a tensor. And where CUDA's rounds it, too, and computes in the wider type with that.
enum Rounded : size_t { kNowhere = 0, kFirst = 1, kSecond = 2, kFactor = 4, kSwapped = 8, kByBoth = 16 };

struct WideRow {
  const char* op;
  Family family;
  Types types;
  // A letter for each result: n narrow, w wide; f wide if the flag in the third argument says so; a digit: as that
  // argument. None: all narrow.
  const char* results;
  // Of a family with parameters: where their first is; what is before it is data. Of numbers: which are rounded.
  size_t weight = 0;

  // Whether CUDA's kernel takes narrow and wide arguments in one call: statistics are wide, and so are masks.
  constexpr bool mixes() const {
    return results || (family >= Family::Attention && family <= Family::Crossing);
  }
};

// The operator's row; null if it has none.
const WideRow* find_wide_row(std::string_view name);

// The types of a row that are really widened: not those that this processor computes as quickly.
Types widened(const WideRow& row);

// From here on a family's operators of this type are left to the CPU's own kernels. Asked for before any is called.
void keep_narrow(const std::string& family, const std::string& type);

// A number as a type of half precision has it.
double as_kept(const c10::Scalar& number, c10::ScalarType narrow);

// The wide copies of one operator call. They are made in device memory.
class Widening {
 public:
  Widening(const WideRow& row, c10::DeviceIndex index) : row_(row), types_(widened(row)), index_(index) {}

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

  const WideRow& row_;
  Types types_;
  c10::DeviceIndex index_;
  bool keeps_wide_ = false, data_stays_ = false;
  c10::ScalarType narrow_ = c10::ScalarType::Undefined;
  std::optional<NumberSum> sum_;
  c10::SmallVector<Copy, 4> copies_;
  c10::SmallVector<c10::ScalarType, 8> given_;
};

}  // namespace hostdevice
