// Python bindings for profilers.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bindings/module.h"
#include "runtime/activities.h"
#include "runtime/observer.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

// Records code of another library on device memory as work of the device.
struct ForeignWork {
  std::string name;
  int device;
  std::optional<DeviceWork> launch;

  void enter() {
    const auto index = static_cast<Index>(device);
    observe([&](StreamObserver& o) { o.run_work(stream_state(index, current_stream(index)), name.c_str(), {}); });
    launch.emplace();
    if (is_profiled()) launch->begin(name, index);
  }
  void leave(bool failed) {
    if (failed) DeviceWork::mark_empty();
    launch.reset();
  }
};

}  // namespace

void bind_profiling(py::module_& m) {
  m.def("is_profiled", [] { return is_profiled(); });
  m.def("pause_profiling", &pause_activities, py::arg("paused"));
  py::class_<ForeignWork>(m, "ForeignWork")
      .def(
          py::init([](std::string name, int device) {
            return std::unique_ptr<ForeignWork>(new ForeignWork{std::move(name), device, {}});
          }),
          py::arg("name"), py::arg("device"))
      .def("__enter__", &ForeignWork::enter)
      .def("__exit__", [](ForeignWork& w, const py::object& kind, const py::object&, const py::object&) {
        w.leave(!kind.is_none());
      });
}

}  // namespace hostdevice
