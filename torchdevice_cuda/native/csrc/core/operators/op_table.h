// What native_functions.yaml of the PyTorch compiled against says about each aten operator. The rows are written when
// the device is built: op_table.py reads the file, op_table.cpp.jinja says what becomes of it.
#pragma once

#include <cstdint>

namespace hostdevice {

// op_table.py gives rows these names.
enum OpFlag : uint16_t {
  kDeviceCheck = 1,  // CUDA's wrapper compares the devices of all tensor arguments
  kMpsKernel = 2,
  kMpsSparseKernel = 4,
  kMpsSparseCsrKernel = 8,
  kMpsNestedKernel = 16,
  kIterates = 32,  // a TensorIterator sees all its tensors, and compares their devices
  kCpuAlone = 64,  // of dense tensors, only the CPU has a kernel
  kSparseCsrCpuAlone = 128,
  kCudaQuantizedKernel = 256,
};

struct OpRow {
  const char* name;    // without the namespace: "add.Tensor"
  const char* method;  // CUDA's wrapper, as error messages call it
  uint16_t flags;
};

// Null for an operator that the file does not have.
const OpRow* find_op_row(const char* name);

}  // namespace hostdevice
