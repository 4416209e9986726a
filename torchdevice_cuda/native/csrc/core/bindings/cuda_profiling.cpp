// Python bindings for profilers.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bindings/module.h"
#include "runtime/activities.h"
#include "runtime/kernel_accesses.h"
#include "runtime/observer.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

// Records code of another library on device memory as work of the device.
struct ForeignWork {
  std::string name;
  int device;
  std::vector<const void*> pointers;  // the arguments of a kernel
  std::optional<DeviceWork> launch;
  std::optional<KernelAccesses> accesses;

  void enter() {
    const auto index = static_cast<Index>(device);
    observe([&](StreamObserver& o) { o.run_work(stream_state(index, current_stream(index)), name.c_str(), {}); });
    if (g_watches_kernels.load() && !pointers.empty()) accesses.emplace().begin(pointers);
    launch.emplace();
    if (is_profiled()) launch->begin(name, index);
  }
  void leave(bool failed) {
    if (failed) DeviceWork::mark_empty();
    launch.reset();
    const auto index = static_cast<Index>(device);
    if (accesses && !failed) accesses->report(stream_state(index, current_stream(index)), name.c_str());
  }
};

}  // namespace

void bind_profiling(py::module_& m) {
  m.def("is_profiled", [] { return is_profiled(); });
  m.def("pause_profiling", &pause_activities, py::arg("paused"));
  py::class_<ForeignWork>(m, "ForeignWork")
      .def(
          py::init([](std::string name, int device, const std::vector<std::uintptr_t>& pointers) {
            auto work = std::make_unique<ForeignWork>();
            work->name = std::move(name);
            work->device = device;
            for (const auto at : pointers) work->pointers.push_back(reinterpret_cast<const void*>(at));
            return work;
          }),
          py::arg("name"), py::arg("device"), py::arg("pointers") = std::vector<std::uintptr_t>())
      .def("__enter__", &ForeignWork::enter)
      .def("__exit__", [](ForeignWork& w, const py::object& kind, const py::object&, const py::object&) {
        w.leave(!kind.is_none());
      });
}

}  // namespace hostdevice
