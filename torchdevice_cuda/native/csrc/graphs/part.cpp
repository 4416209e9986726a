// Graphs for Python. Functions that may wait for a lock or compute release the GIL first.
#include "graphs/graph.h"

#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/pybind.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/module.h"
#include "bindings/part.h"
#include "runtime/allocator.h"
#include "runtime/captures.h"
#include "runtime/checkpoints.h"

namespace hostdevice {

namespace {

// Wrap a node's Python function. The thread that releases it last may not hold the GIL.
std::function<void()> make_replay(const py::object& function) {
  if (function.is_none()) return {};
  const std::shared_ptr<py::object> kept(new py::object(function), [](py::object* held) {
    const py::gil_scoped_acquire gil;
    delete held;
  });
  return [kept] {
    const py::gil_scoped_acquire gil;
    (*kept)();
  };
}

// Python identifies a storage by its address.
std::vector<c10::StorageImpl*> storages_at(const std::vector<uintptr_t>& addresses) {
  std::vector<c10::StorageImpl*> out;
  for (const auto address : addresses) out.push_back(reinterpret_cast<c10::StorageImpl*>(address));
  return out;
}

void bind_checkpoints(py::module_& m) {
  const auto nogil = py::call_guard<py::gil_scoped_release>();

  py::class_<PoolCheckpoint>(m, "PoolCheckpoint");
  m.def(
      "checkpoint_pool",
      [](int i, unsigned long long a, unsigned long long b) { return checkpoint_pool(static_cast<Index>(i), {a, b}); },
      py::arg("device"), py::arg("pool_a"), py::arg("pool_b"), nogil);
  m.def(
      "restore_pool",
      [](const PoolCheckpoint& checkpoint, const std::vector<uintptr_t>& stale, const std::vector<uintptr_t>& live) {
        restore_pool(checkpoint, storages_at(stale), storages_at(live));
      },
      py::arg("checkpoint"), py::arg("stale"), py::arg("live"), nogil);
  m.def(
      "owns_device_memory",
      [](uintptr_t storage) { return owns_device_memory(reinterpret_cast<c10::StorageImpl*>(storage)); }, nogil);
  m.def(
      "free_under", [](uintptr_t storage) { free_storage_memory(reinterpret_cast<c10::StorageImpl*>(storage)); },
      nogil);
  m.def(
      "forbid_storage",
      [](uintptr_t storage, const std::string& message) {
        reinterpret_cast<c10::StorageImpl*>(storage)->release_data_and_set_meta_custom_data_ptr_error_msg_(message);
      },
      py::arg("storage"), py::arg("message"), nogil);
  m.def("allow_storage", [](uintptr_t storage) { allow_access(*reinterpret_cast<c10::StorageImpl*>(storage)); }, nogil);
  m.def(
      "forbid_tensor",
      [](const at::Tensor& tensor, const std::string& message) {
        tensor.unsafeGetTensorImpl()->release_storage_and_set_meta_custom_data_ptr_error_msg_(message);
      },
      py::arg("tensor"), py::arg("message"));
}

std::shared_ptr<Recording> recording_on(int index) {
  return std::static_pointer_cast<Recording>(current_capture(static_cast<Index>(index)));
}

void begin(PyObject* module) {
  install_recording();
  auto m = py::reinterpret_borrow<py::module_>(module);
  keep_types_of_errors();
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

  bind_checkpoints(m);
  m.def(
      "begin_foreign_call",
      [](int i, const std::vector<std::pair<uintptr_t, size_t>>& memory) {
        const auto recording = recording_on(i);
        if (recording) recording->begin_foreign(memory);
        return recording != nullptr;
      },
      py::arg("device"), py::arg("memory"), nogil);
  m.def(
      "end_foreign_call",
      [](int i, const py::object& function, const std::string& name, const std::vector<uintptr_t>& pointers) {
        auto work = make_replay(function);
        std::vector<const void*> given;
        for (const auto at : pointers) given.push_back(reinterpret_cast<const void*>(at));
        const py::gil_scoped_release released;
        if (const auto recording = recording_on(i))
          recording->end_foreign(static_cast<Index>(i), std::move(work), name, std::move(given));
      },
      py::arg("device"), py::arg("again"), py::arg("name") = "", py::arg("pointers") = std::vector<uintptr_t>());
}

}  // namespace
}  // namespace hostdevice

HOSTDEVICE_PART(graphs, hostdevice::begin)
