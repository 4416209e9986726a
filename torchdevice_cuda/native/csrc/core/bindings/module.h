// The bindings of the Python module. README.md next to csrc documents every function.
#pragma once

#include <Python.h>
#include <c10/core/Device.h>
#include <c10/util/Exception.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <exception>

// Declared in torch/csrc/Exceptions.h, which takes longer to compile than this whole folder.
namespace torch {
C10_IMPORT void translate_exception_to_python(const std::exception_ptr&);
}

namespace hostdevice {

namespace py = pybind11;
// Python passes device indices as int.
using Index = c10::DeviceIndex;

void bind_ipc(py::module_& m);
// Release the GIL and call a function of the runtime that takes a lock.
template <typename F>
auto without_gil(F&& function) {
  py::gil_scoped_release release;
  return function();
}

// Preserve the types of torch's errors (AcceleratorError, OutOfMemoryError, NotImplementedError ...). Each extension
// library has its own exception translators, so each must register this.
inline void keep_types_of_errors() {
  py::register_local_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const c10::Error&) {
      torch::translate_exception_to_python(p);
    }
  });
}

void bind_memory(py::module_& m);
void bind_profiling(py::module_& m);
void bind_history(py::module_& m);
void bind_streams(py::module_& m);
// Make the device visible to libraries compiled from CUDA C++.
void publish_kernel_abi();

}  // namespace hostdevice
