// Streams and events for Python. A stream that was made elsewhere is looked up under a lock: whoever names a stream
// gives up the interpreter first, as `memory.cpp` explains.
#include "runtime/streams.h"

#include <memory>

#include "bindings/module.h"
#include "graphs/graph.h"
#include "runtime/captures.h"
#include "runtime/device.h"

namespace hostdevice {
namespace {

struct PyEvent {
  std::shared_ptr<EventState> shared = std::make_shared<EventState>();  // a graph may record it later
  EventState& state = *shared;
  bool recorded() const {
    return state.time_ns.load() >= 0;
  }
};

// An event of which a graph knows: it is recorded, or waited for, when that is replayed.
bool in_graph([[maybe_unused]] PyEvent& e, [[maybe_unused]] const StreamState& stream, [[maybe_unused]] bool waits) {
#ifdef HOSTDEVICE_CUDA
  return record_event(e.shared, stream, waits);
#else
  return false;
#endif
}

}  // namespace

void bind_streams(py::module_& m) {
  const auto nogil = py::call_guard<py::gil_scoped_release>();

  m.def(
      "stream_new", [](int i, int priority) { return new_stream(static_cast<Index>(i), priority); },
      py::arg("device") = -1, py::arg("priority") = 0);
  m.def("stream_current", [](int i) { return current_stream(static_cast<Index>(i)); }, py::arg("device") = -1);
  m.def(
      "stream_set",
      [](int i, int64_t id) {
        stream_state(static_cast<Index>(i), id);  // says so if there is none
        return exchange_stream(static_cast<Index>(i), id);
      },
      nogil);
  m.def("stream_query", [](int i, int64_t id) { return query_stream(stream_state(static_cast<Index>(i), id)); }, nogil);
  m.def(
      "stream_synchronize",
      [](int i, int64_t id) {
        check_fork();
        synchronize_stream(stream_state(static_cast<Index>(i), id));
      },
      nogil);
  m.def("stream_priority", [](int i, int64_t id) { return stream_priority(static_cast<Index>(i), id); }, nogil);
  m.def("stream_handle", [](int i, int64_t id) { return stream_handle(static_cast<Index>(i), id); }, nogil);
  m.def("stream_priority_range", [] { return std::make_pair(kLowestPriority, kHighestPriority); });
  m.def("synchronize", [](int i) { synchronize_device(static_cast<Index>(i)); }, py::arg("device") = -1, nogil);
  m.def(
      "sleep",
      [](int64_t cycles, int i) {
#ifdef HOSTDEVICE_CUDA
        if (record_sleep(static_cast<Index>(i), cycles)) return;
#endif
        sleep_current_stream(static_cast<Index>(i), cycles);
      },
      py::arg("cycles"), py::arg("device") = -1, nogil);

  m.def("captures_underway", [] { return captures_underway(); });
  m.def("watch_synchronization", [](int mode) { g_sync_debug.store(mode); }, py::arg("mode"));

  py::class_<PyEvent>(m, "Event")
      .def(py::init<>())
      .def(
          "record",
          [](PyEvent& e, int i, int64_t id, bool external) {
            auto& stream = stream_state(static_cast<Index>(i), id);
            if (!external || !in_graph(e, stream, false)) event_record(e.state, stream);
          },
          py::arg("device"), py::arg("stream"), py::arg("external") = false, nogil)
      .def(
          "block",
          [](PyEvent& e, int i, int64_t id, bool external) {
            auto& stream = stream_state(static_cast<Index>(i), id);
            if (external && in_graph(e, stream, true)) return;
            if (e.recorded()) event_block(e.state, stream);
          },
          py::arg("device"), py::arg("stream"), py::arg("external") = false, nogil)
      .def("query", [](PyEvent& e) { return !e.recorded() || event_done(e.state); })
      .def(
          "synchronize",
          [](PyEvent& e) {
            if (e.recorded()) synchronize_event(e.state);
          },
          nogil)
      .def("elapsed_time", [](PyEvent& a, PyEvent& b) { return event_elapsed_ms(a.state, b.state); })
      .def_property_readonly("recorded", &PyEvent::recorded)
      .def_property_readonly("handle", [](PyEvent& e) { return reinterpret_cast<uintptr_t>(&e.state); });
}

}  // namespace hostdevice
