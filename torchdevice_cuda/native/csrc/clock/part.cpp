// The clock for Python.
#include <c10/core/ScalarType.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/module.h"
#include "bindings/part.h"
#include "clock/clock.h"
#include "clock/description.h"
#include "clock/kernels.h"

namespace hostdevice {
namespace {

using c10::IValue;

// The function that predicts a call. Null until the clock starts; never deleted.
py::object* g_function = nullptr;
// The function that is called for a kernel without a prediction, likewise.
py::object* g_reporter = nullptr;

// A tensor: sizes, the type's name, strides unless it is contiguous, and whether it is on the host, and pinned.
py::object describe_for_python(const at::Tensor& t) {
  if (!t.defined()) return py::none();
  const auto described = describe_tensor(t);
  return py::make_tuple(
      py::tuple(py::cast(described.sizes)), c10::toString(t.scalar_type()), py::tuple(py::cast(described.strides)),
      described.is_on_host, described.is_pinned);
}

py::object describe(const IValue& v) {
  if (v.isTensor()) return py::make_tuple("tensor", describe_for_python(v.toTensor()));
  if (v.isTensorList() || v.isOptionalTensorList()) {
    py::list all;
    for (const IValue& each : v.toListRef())
      all.append(each.isTensor() ? describe_for_python(each.toTensor()) : py::none());
    return py::make_tuple("tensors", all);
  }
  if (v.isInt()) return py::int_(v.toInt());
  if (v.isDouble()) return py::float_(v.toDouble());
  if (v.isBool()) return py::bool_(v.toBool());
  if (v.isIntList()) return py::tuple(py::cast(v.toIntVector()));
  if (v.isBoolList()) return py::tuple(py::cast(v.toBoolList().vec()));
  return py::none();
}

Prediction call_python(const std::string& name, c10::ArrayRef<IValue> arguments) {
  const py::gil_scoped_acquire gil;
  py::list described;
  for (const auto& v : arguments) described.append(describe(v));
  const py::tuple predicted = (*g_function)(name, described, uses_tf32(name));
  return {
      static_cast<int64_t>(predicted[0].cast<double>()),
      static_cast<int>(predicted[1].cast<double>()),
      predicted[2].cast<int>(),
      predicted[3].cast<double>(),
      static_cast<Blas>(predicted[4].cast<int>()),
      static_cast<int64_t>(predicted[5].cast<double>())};
}

void call_reporter(const char* name, bool is_estimated) {
  const py::gil_scoped_acquire gil;
  (*g_reporter)(name, is_estimated);
}

void start(const py::object& function, const py::object& report, int64_t launch_ns, int64_t gap_ns) {
  delete std::exchange(g_function, new py::object(function));
  delete std::exchange(g_reporter, new py::object(report));
  start_clock(&call_python, &call_reporter, launch_ns, gap_ns);
}

void begin(PyObject* module) {
  auto m = py::reinterpret_borrow<py::module_>(module);
  publish_kernel_times();
  m.def("start_clock", &start, py::arg("predict"), py::arg("report"), py::arg("launch_ns"), py::arg("gap_ns"));
  m.def("stop_clock", &stop_clock);
  m.def(
      "add_work", &add_work, py::arg("name"), py::arg("device"), py::arg("ns"), py::arg("spent_ns"),
      py::arg("takes_multiprocessors") = false, py::call_guard<py::gil_scoped_release>());
  m.def("predict_kernel", &predict_kernel, py::arg("arguments"), py::call_guard<py::gil_scoped_release>());
  m.def("set_workspaces", &set_workspaces, py::arg("blas_bytes"), py::arg("blas_lt_bytes"));
  m.def("count_workspaces", &count_workspaces);
  m.def("clear_workspaces", &clear_workspaces, py::call_guard<py::gil_scoped_release>());
  m.def("read_clock_counts", [] {
    const auto counts = read_clock_counts();
    return std::make_pair(counts.calls, counts.computing_ns);
  });
}

}  // namespace
}  // namespace hostdevice

HOSTDEVICE_PART(clock, hostdevice::begin)
