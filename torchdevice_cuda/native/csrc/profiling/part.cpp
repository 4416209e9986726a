// The device's part of PyTorch's profilers.
#include "bindings/part.h"
#include "bindings/module.h"
#include "profiling/profiler.h"

namespace hostdevice {
namespace {

void begin(PyObject* module) {
  install_kineto();
  install_event_profiling();
  auto m = py::reinterpret_borrow<py::module_>(module);
  keep_types_of_errors();
  m.def("describe_devices", &describe_devices, py::arg("properties"));
}

}  // namespace
}  // namespace hostdevice

HOSTDEVICE_PART(profiling, hostdevice::begin)
