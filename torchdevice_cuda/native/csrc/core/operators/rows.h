// The rows of contract/operators.toml as the build writes them: behavior that depends only on an operator's name.
#pragma once

#include <ATen/core/stack.h>
#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "operators/types.h"

namespace hostdevice {

// Boolean facts; operators.toml explains them.
enum RowFlag : uint16_t {
  kMixesDevices = 1,
  kIndexes = 2,
  kDividesIntegers = 4,
  kDividesIntegersByMode = 8,
  kNeverDraws = 16,
  kWaits = 32,
  kNeverWaits = 64,
  kStaysComposite = 128,
  kUsesCpuKernel = 256,
  kAsksGrad = 512,
  kOnlyReads = 1024,
  kOnlyMoves = 2048,
  kTakesAnyMemory = 4096,
  kCallsParts = 8192,
};

// ---- types computed in a wider one --------------------------------------------------------------------------------

// Operators for which one measurement decides whether this processor is fast with half precision. If it is, the CPU's
// own kernel computes.
enum class Family : uint8_t {
  Product,
  Convolution,
  ConvolutionGradient,
  Attention,
  AttentionGradient,
  Mixed,       // only beside a wide first argument
  Crossing,    // only from a narrow type to a wide one, and back
  Parameters,  // beside a narrow weight, only the weights: the CPU kernel then keeps statistics wide, as CUDA's does
  Numbers,  // only beside a scalar that the narrow type cannot represent, which CUDA does not round; ComplexHalf always
  Always,   // the CPU has no kernel, or its result types differ from CUDA's
};

// Scalars that the CPU kernel rounds before it computes. kSwapped: it passes a scalar second argument as the first.
// kByBoth: CUDA's kernel rounds them, too, and then computes in the wider type.
enum Rounded : size_t { kNowhere = 0, kFirst = 1, kSecond = 2, kFactor = 4, kSwapped = 8, kByBoth = 16 };

struct WidenedTypes {
  Types types = 0;
  Family family = Family::Always;
  // A letter for each result: n narrow, w wide; f wide if the flag in the third argument is set; a digit: the type of
  // that argument. Null: all narrow.
  const char* results = nullptr;
  // For Family::Parameters the position of the first parameter, after the data; for Family::Numbers the `Rounded` bits.
  size_t weight = 0;

  // Whether CUDA's kernel takes narrow and wide arguments in one call, such as wide statistics and masks.
  constexpr bool mixes() const {
    return results || (family >= Family::Attention && family <= Family::Crossing);
  }
};

// ---- lists of tensors ---------------------------------------------------------------------------------------------

// Conditions under which an operator does not take its lists at once, from PyTorch's CUDA sources.
enum ListKernel : uint8_t {
  // The tensors have such a type.
  kUnlessIntegral = 1,
  kUnlessComplex = 2,
  // Integers would become floating-point numbers: CUDA checks the types of scalars and tensors together.
  kUnlessPromotes = 4,
  // A list may have another type than the others.
  kUnlessConverts = 8,
  // The order is none of 1, 2, infinity and (by version) 0; for sums, neither 1 nor 2.
  kUnlessOtherNorms = 16,
  kUnlessOtherSums = 32,
  // No condition applies: the caller has sorted the lists.
  kTakesAnyLists = 64,
  kTakesLists = 128,
};

// ---- rules that depend on arguments (rules.h) -----------------------------------------------------------------------

// Whether a fact holds for these arguments, of which the first is at `base`; null: always.
using Condition = bool (*)(const torch::jit::Stack& stack, size_t base);
// Raises a message without a kernel's name, or returns if the refusal depends on more than the type.
using Refuse = void (*)(c10::ScalarType type, const torch::jit::Stack& stack, size_t base);
// Raises as CUDA does for several types, or converts the arguments as CUDA does.
using CheckTypes = void (*)(torch::jit::Stack& stack, size_t base);
// Compares the devices of arguments before all other checks.
using CompareDevices = void (*)(const torch::jit::Stack& stack, size_t base);

// An operator without a deterministic CUDA kernel.
struct Nondeterministic {
  const char* caller = nullptr;     // its name in CUDA's message
  const char* overloads = nullptr;  // each between spaces; null: all
  Condition holds = nullptr;
};

// An operator for which CUDA waits for the stream, because the host gets a value.
struct Waiting {
  const char* overloads = nullptr;
  Condition holds = nullptr;
};

// contract_tables.py writes the fields in this order.
struct Row {
  const char* op;  // without namespace, overload and the underscore of the in-place form
  uint16_t flags = 0;
  uint32_t contiguous = 0;  // arguments that the CPU kernel reads as contiguous, as bits by position
  Types takes = ~Types{0};
  const char* kernel = nullptr;  // its name when it refuses a type
  Refuse refuse = nullptr;
  CheckTypes mixed_types = nullptr;
  WidenedTypes wide = {};
  uint8_t list_kernel = 0;
  Nondeterministic nondeterministic = {};
  Waiting waits = {};
  CompareDevices compare = nullptr;

  constexpr bool is(RowFlag flag) const {
    return (flags & flag) != 0;
  }
};

// Return an operator's name as in rows; empty outside of aten.
std::string row_name(const std::string& operator_name);

// Return the row of that name, or an empty one.
const Row& find_row(std::string_view name);

}  // namespace hostdevice
