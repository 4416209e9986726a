// Graphs for Python. Whatever may wait for a lock or compute gives up the interpreter first.
#include "graphs/graph.h"

#include <torch/csrc/Generator.h>

#include "bindings/module.h"
#include "runtime/allocator.h"
#include "runtime/captures.h"

namespace hostdevice {

void bind_graphs(py::module_& m) {
  const auto nogil = py::call_guard<py::gil_scoped_release>();

  py::class_<Graph>(m, "Graph")
      .def(py::init<>())
      .def(
          "begin",
          [](Graph& g, unsigned long long a, unsigned long long b, int mode) {
            g.begin({a, b}, static_cast<CaptureMode>(mode));
          },
          py::arg("pool_a"), py::arg("pool_b"), py::arg("mode"), nogil)
      .def("end", &Graph::end, nogil)
      .def("replay", &Graph::replay, nogil)
      .def("reset", &Graph::reset, nogil)
      .def("names", &Graph::names)
      .def(
          "register_generator",
          [](Graph& g, const py::object& generator) {
            const auto& given = reinterpret_cast<THPGenerator*>(generator.ptr())->cdata;
            const py::gil_scoped_release released;
            g.register_generator(given);
          },
          py::arg("generator"))
      .def("holds_current_stream", &Graph::holds_current_stream)
      .def("takes_current_stream", &Graph::takes_current_stream)
      .def_property_readonly("capturing", &Graph::capturing);

  m.def(
      "stream_capture_status",
      [](int i, int64_t id) { return capture_status(stream_state(static_cast<Index>(i), id)); }, nogil);
}

}  // namespace hostdevice
