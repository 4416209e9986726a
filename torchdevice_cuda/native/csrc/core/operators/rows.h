// The rows of contract/operators.toml as a build writes them: what is known of an operator by its name alone.
#pragma once

#include <ATen/core/stack.h>
#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "operators/types.h"

namespace hostdevice {

// Facts that hold or do not; operators.toml explains them.
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
};

// ---- types that are computed in a wider one -----------------------------------------------------------------------

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

struct WidenedTypes {
  Types types = 0;
  Family family = Family::Always;
  // A letter for each result: n narrow, w wide; f wide if the flag in the third argument says so; a digit: as that
  // argument. None: all narrow.
  const char* results = nullptr;
  // Of a family with parameters: where their first is; what is before it is data. Of numbers: which are rounded.
  size_t weight = 0;

  // Whether CUDA's kernel takes narrow and wide arguments in one call: statistics are wide, and so are masks.
  constexpr bool mixes() const {
    return results || (family >= Family::Attention && family <= Family::Crossing);
  }
};

// ---- lists of tensors ---------------------------------------------------------------------------------------------

// What keeps an operator from taking its lists at once, from the conditions in PyTorch's sources for CUDA.
enum ListKernel : uint8_t {
  // An argument, or what is computed with it, is of such a type.
  kUnlessIntegral = 1,
  kUnlessComplex = 2,
  // Integers would become floating-point numbers: CUDA looks at the types of scalars and tensors together.
  kUnlessPromotes = 4,
  // A list may have another type than the others.
  kUnlessConverts = 8,
  // Of another order than 1, 2, infinity and maybe 0; or than 1, 2.
  kUnlessOtherNorms = 16,
  kUnlessOtherSums = 32,
  // Nothing does: the caller has sorted the lists.
  kTakesAnyLists = 64,
  kTakesLists = 128,
};

// ---- what depends on arguments: functions of rules.h ----------------------------------------------------------------

// Whether something is so for these arguments, the operator's first one at `base`; null: for all.
using Condition = bool (*)(const torch::jit::Stack& stack, size_t base);
// Refuses in other words than a kernel's name, or returns where it depends on more than the type.
using Refuse = void (*)(c10::ScalarType type, const torch::jit::Stack& stack, size_t base);
// Raises as CUDA does of several types, or makes the arguments what CUDA makes of them.
using CheckTypes = void (*)(torch::jit::Stack& stack, size_t base);
// Compares the devices of arguments before anything else does.
using CompareDevices = void (*)(const torch::jit::Stack& stack, size_t base);

// An operator that CUDA has no deterministic kernel for.
struct Nondeterministic {
  const char* caller = nullptr;     // as CUDA's message calls it
  const char* overloads = nullptr;  // with a space around each; null: all
  Condition holds = nullptr;
};

// An operator that has CUDA wait for the stream: something is handed to the host.
struct Waiting {
  const char* overloads = nullptr;
  Condition holds = nullptr;
};

// contract_tables.py writes the fields in this order.
struct Row {
  const char* op;  // without namespace, overload and the underscore of the in-place form
  uint16_t flags = 0;
  uint32_t contiguous = 0;  // arguments that the CPU's kernel reads as if they were, as bits by position
  Types takes = ~Types{0};
  const char* kernel = nullptr;  // as it calls itself when it refuses a type
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

// An operator's name as rows have it; empty if it is not one of PyTorch's own.
std::string row_name(const std::string& operator_name);

// The row of that name; an empty one where there is none.
const Row& find_row(std::string_view name);

}  // namespace hostdevice
