// What native_functions.yaml of the PyTorch compiled against says about each aten operator. The rows are written when
// the device is built: op_table.py reads the file, op_table.cpp.jinja says what becomes of it.
#pragma once

#include <cstdint>

namespace hostdevice {

// op_table.py gives rows these names.
enum OpFlag : uint8_t {
  kDeviceCheck = 1,  // CUDA's wrapper compares the devices of all tensor arguments
  kMpsKernel = 2,
  kMpsSparseKernel = 4,
  kMpsSparseCsrKernel = 8,
  kMpsNestedKernel = 16,
  kCpuAlone = 64,  // PyTorch has a kernel for the CPU and none that serves CUDA
  kIterates = 32,  // a TensorIterator sees all its tensors, and compares their devices
};

struct OpRow {
  const char* name;    // without the namespace: "add.Tensor"
  const char* method;  // CUDA's wrapper, as error messages call it
  uint8_t flags;
};

// Null for an operator that the file does not have.
const OpRow* find_op_row(const char* name);

}  // namespace hostdevice
