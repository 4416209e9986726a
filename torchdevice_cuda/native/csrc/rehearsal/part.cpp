// The rehearsal for Python.
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/module.h"
#include "bindings/part.h"
#include "rehearsal/rehearse.h"
#include "rehearsal/values.h"

namespace hostdevice {
namespace {

// The function that is called for what was not computed. Null until the rehearsal starts; never deleted.
py::object* g_function = nullptr;

constexpr const char* kKinds[] = {"value", "size", "kernel"};

void call_python(Unknown what, const std::string& name) {
  const py::gil_scoped_acquire gil;
  try {
    (*g_function)(kKinds[static_cast<size_t>(what)], name);
  } catch (py::error_already_set& error) {
    // The way in which errors of Python pass through torch, on any thread.
    error.restore();
    python_error passed;
    passed.persist();
    throw passed;
  }
}

void start(const py::object& function) {
  delete std::exchange(g_function, new py::object(function));
  start_rehearsal(&call_python);
}

// Note whether all values of a small tensor are known. Unknown ones get values that stand for them.
void set_computed(const at::Tensor& t, bool is_computed) {
  if (is_large(t)) return;
  if (is_computed) {
    mark_computed(t);
  } else {
    fill_with_stand_in(t, "copy");
    mark_uncomputed(t);
  }
}

void begin(PyObject* module) {
  auto m = py::reinterpret_borrow<py::module_>(module);
  keep_types_of_errors();
  m.def("start_rehearsal", &start, py::arg("report"));
  m.def("stop_rehearsal", &stop_rehearsal);
  m.def("is_large", &is_large);
  m.def("is_uncomputed", &is_uncomputed);
  m.def("set_computed", &set_computed, py::arg("tensor"), py::arg("is_computed"));
}

}  // namespace
}  // namespace hostdevice

HOSTDEVICE_PART(rehearsal, hostdevice::begin)
