// Python bindings for streams and events. Looking up an external stream takes a lock, so every binding that takes a
// stream releases the GIL first, as `memory.cpp` explains.
#include "runtime/streams.h"

#include <memory>
#include <string>
#include <variant>

#include "bindings/module.h"
#include "runtime/captures.h"
#include "runtime/device.h"
#include "runtime/failure.h"
#include "runtime/ipc.h"
#include "runtime/observer.h"

namespace hostdevice {
namespace {

struct PyEvent {
  // Shared, because a graph or another process may record the event later.
  std::shared_ptr<EventState> held = std::shared_ptr<EventState>(new EventState, [](EventState* e) {
    report_event_deletion(*e);
    delete e;
  });
  std::string name;  // the handle for other processes; empty for most events

  EventState& state() const {
    return *held;
  }
  bool recorded() const {
    return held->time_ns.load() >= 0;
  }
};

PyEvent new_event(bool interprocess) {
  if (!interprocess) return {};
  auto made = make_shared_event();
  return {std::move(made.state), std::move(made.handle)};
}

// Open an event, or return CUDA's error code.
std::variant<PyEvent, int> open_python_event(const std::string& handle) {
  auto opened = open_event(handle);
  if (const auto* refusal = std::get_if<Refusal>(&opened)) return *refusal;
  return PyEvent{std::get<0>(std::move(opened)), {}};
}

// Add the event to the graph that captures the stream, which records or waits for it at each replay. Return false if
// the stream is not capturing.
bool record_in_graph(
    [[maybe_unused]] PyEvent& e, [[maybe_unused]] const StreamState& stream, [[maybe_unused]] bool waits) {
#ifdef HOSTDEVICE_CUDA
  return record_event(e.held, stream, waits);
#else
  return false;
#endif
}

}  // namespace

void bind_streams(py::module_& m) {
  const auto nogil = py::call_guard<py::gil_scoped_release>();

  m.def(
      "stream_new",
      [](int i, int priority) {
        mark_context(resolve(static_cast<Index>(i)));
        return new_stream(static_cast<Index>(i), priority);
      },
      py::arg("device") = -1, py::arg("priority") = 0);
  m.def(
      "stream_current",
      [](int i) {
        mark_context(resolve(static_cast<Index>(i)));
        return current_stream(static_cast<Index>(i));
      },
      py::arg("device") = -1);
  m.def(
      "stream_set",
      [](int i, int64_t id) {
        stream_state(static_cast<Index>(i), id);  // throws if there is no such stream
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
  m.def(
      "run_other_work",
      [](int i) {
        const auto index = resolve(static_cast<Index>(i));
        observe([&](StreamObserver& o) {
          o.run_work(stream_state(index, current_stream(index)), kCodeOutsideOfOperators, {});
        });
      },
      py::arg("device"), nogil);
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

  m.def(
      "fail_assertion",
      [](int i, const std::string& place, const std::string& condition, const std::string& cause) {
        fail_assertion(resolve(static_cast<Index>(i)), place.c_str(), condition, cause);
      },
      py::arg("device"), py::arg("place"), py::arg("condition"), py::arg("cause") = "", nogil);
  m.def(
      "fail_context",
      [](int i, int code, const std::string& message) {
        const auto index = resolve(static_cast<Index>(i));
        fail_context(index, code, message);
        if (is_launch_blocking()) throw_failure(index);
      },
      py::arg("device"), py::arg("code"), py::arg("words"), nogil);
  m.def(
      "lost",
      [](int i) {
        const auto index = resolve(static_cast<Index>(i));
        return is_lost(index) ? failure_code(index) : 0;
      },
      py::arg("device"));
  m.def(
      "stream_capture_status",
      [](int i, int64_t id) { return capture_status(stream_state(static_cast<Index>(i), id)); }, nogil);
  m.def("captures_underway", [] { return has_captures(); });
  m.def("watch_synchronization", [](int mode) { g_sync_debug.store(mode); }, py::arg("mode"));

  py::class_<PyEvent>(m, "Event")
      .def(py::init(&new_event), py::arg("interprocess") = false, nogil)
      .def_static("open", &open_python_event, nogil)
      .def_property_readonly("name", [](const PyEvent& e) { return py::bytes(e.name); })
      .def(
          "record",
          [](PyEvent& e, int i, int64_t id, bool external) {
            auto& stream = stream_state(static_cast<Index>(i), id);
            if (!external || !record_in_graph(e, stream, false)) event_record(e.state(), stream);
          },
          py::arg("device"), py::arg("stream"), py::arg("external") = false, nogil)
      .def(
          "block",
          [](PyEvent& e, int i, int64_t id, bool external) {
            auto& stream = stream_state(static_cast<Index>(i), id);
            if (external && record_in_graph(e, stream, true)) return;
            if (e.recorded()) event_block(e.state(), stream);
          },
          py::arg("device"), py::arg("stream"), py::arg("external") = false, nogil)
      .def("query", [](PyEvent& e) { return !e.recorded() || query_event(e.state()); })
      .def(
          "synchronize",
          [](PyEvent& e) {
            if (e.recorded()) synchronize_event(e.state());
          },
          nogil)
      .def("elapsed_time", [](PyEvent& a, PyEvent& b) { return event_elapsed_ms(a.state(), b.state()); })
      .def_property_readonly("recorded", &PyEvent::recorded)
      .def_property_readonly("handle", [](PyEvent& e) { return reinterpret_cast<uintptr_t>(&e.state()); });
}

}  // namespace hostdevice
