// What native_functions.yaml of the PyTorch compiled against says about each aten operator. build.py writes the rows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hostdevice {

enum OpFlag : uint8_t {
  kDeviceCheck = 1,  // CUDA's wrapper compares the devices of all tensor arguments
  kMpsKernel = 2,
  kMpsSparseKernel = 4,
  kMpsSparseCsrKernel = 8,
  kMpsNestedKernel = 16,
};

struct OpRow {
  const char* name;    // without the namespace: "add.Tensor"
  const char* method;  // CUDA's wrapper, as error messages call it
  uint8_t flags;
};

// Sorted by name.
extern const OpRow kOpTable[];
extern const size_t kOpTableSize;

const OpRow* find_op_row(const char* name);

}  // namespace hostdevice
