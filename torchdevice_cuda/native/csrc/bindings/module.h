// The parts of the Python module. README.md beside csrc documents every function.
#pragma once

#include <Python.h>
#include <c10/core/Device.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace hostdevice {

namespace py = pybind11;
// Python passes device indices as int.
using Index = c10::DeviceIndex;

void bind_ipc(py::module_& m);
// What a function of the runtime gives that takes a lock.
template <typename F>
auto without_gil(F&& function) {
  py::gil_scoped_release release;
  return function();
}

void bind_attention(py::module_& m);
void bind_counting(py::module_& m);
void bind_graphs(py::module_& m);
void bind_memory(py::module_& m);
void bind_profiling(py::module_& m);
void bind_history(py::module_& m);
void bind_streams(py::module_& m);
void bind_collectives(py::module_& m);
void bind_remote(py::module_& m);
// So that libraries compiled from CUDA C++ find the device.
void publish_seam();

}  // namespace hostdevice
