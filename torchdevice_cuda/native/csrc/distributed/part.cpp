// Collectives and other parts of torch.distributed.
#include <torch/csrc/utils/pybind.h>

#include "bindings/module.h"
#include "bindings/part.h"

namespace hostdevice {

void install_ddp_timer();
void bind_collectives(py::module_& m);
void bind_remote(py::module_& m);

namespace {

void begin(PyObject* module) {
  install_ddp_timer();
  auto m = py::reinterpret_borrow<py::module_>(module);
  keep_types_of_errors();
  bind_collectives(m);
  bind_remote(m);
}

}  // namespace
}  // namespace hostdevice

HOSTDEVICE_PART(distributed, hostdevice::begin)
