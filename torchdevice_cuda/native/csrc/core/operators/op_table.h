// Facts about each aten operator from native_functions.yaml of the PyTorch that the device is compiled against. The
// build writes the rows: op_table.py reads the file, op_table.cpp.jinja is the template.
#pragma once

#include <cstdint>

namespace hostdevice {

// Names that op_table.py writes into rows.
enum OpFlag : uint16_t {
  kDeviceCheck = 1,  // CUDA's wrapper compares the devices of all tensor arguments
  kMpsKernel = 2,
  kMpsSparseKernel = 4,
  kMpsSparseCsrKernel = 8,
  kMpsNestedKernel = 16,
  kIterates = 32,  // a TensorIterator gets all its tensors and compares their devices
  kCpuAlone = 64,  // for dense tensors, only the CPU has a kernel
  kSparseCsrCpuAlone = 128,
  kCudaQuantizedKernel = 256,
};

struct OpRow {
  const char* name;    // without the namespace: "add.Tensor"
  const char* method;  // CUDA's wrapper, as in error messages
  uint16_t flags;
};

// Return null if native_functions.yaml lacks the operator.
const OpRow* find_op_row(const char* name);

}  // namespace hostdevice
