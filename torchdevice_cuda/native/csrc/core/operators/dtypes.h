// Which types CUDA's kernels take where the CPU's take others, and how they refuse the rest.
#pragma once

#include <ATen/core/stack.h>

#include <string_view>

#include "operators/types.h"

namespace hostdevice {

struct TakenRow {
  const char* op;
  Types taken;
  const char* kernel;  // as it calls itself when it refuses
  // Refuses in other words, or returns where it depends on more than the type and there is nothing to refuse.
  void (*refuse)(c10::ScalarType type, const torch::jit::Stack& stack, size_t base) = nullptr;
};

// The operator's row; null where the CPU's kernel takes no more than CUDA's.
const TakenRow* find_taken_row(std::string_view name);

// Raises if CUDA's kernel has no code for the type of the arguments, which start at `base`.
void check_taken(const TakenRow& row, const torch::jit::Stack& stack, size_t base);

}  // namespace hostdevice
