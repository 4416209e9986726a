// Deferred work for Python.
#include <torch/csrc/utils/pybind.h>

#include "bindings/module.h"
#include "bindings/part.h"
#include "deferral/intercept.h"

namespace hostdevice {
namespace {

void begin(PyObject* module) {
  auto m = py::reinterpret_borrow<py::module_>(module);
  keep_types_of_errors();
  const auto nogil = py::call_guard<py::gil_scoped_release>();
  m.def("start_deferral", &start_deferral, py::arg("seed"), nogil);
  m.def("stop_deferral", &stop_deferral, nogil);
  m.def("read_deferral_counts", [] {
    py::dict out;
    for (const auto& [name, counted] : read_deferral_counts())
      out[py::str(name)] = py::make_tuple(counted.deferred, counted.at_once, counted.relaid);
    return out;
  });
}

}  // namespace
}  // namespace hostdevice

HOSTDEVICE_PART(deferral, hostdevice::begin)
