// Kernels that a profile of a GPU names and programs look for: those that take whole lists of tensors at once.
#pragma once

#include <ATen/core/stack.h>

#include <cstdint>
#include <string>

namespace hostdevice {

struct Facts;

// What keeps an operator from taking its lists at once. From the conditions in PyTorch's sources for CUDA.
struct ListRow {
  const char* name;  // without namespace, overload and the underscore of the in-place form
  uint8_t unless = 0;
};
const ListRow* find_list_row(const std::string& name);

// CUDA's name of the kernel that would compute this call, for operators on lists; null where it would be several, each
// of one tensor, or none. Tensors have to be as they came: the device of each counts.
const char* list_kernel(const ListRow& row, const Facts& f, const torch::jit::Stack& stack, size_t base);

}  // namespace hostdevice
