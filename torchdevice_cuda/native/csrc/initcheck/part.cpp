// New memory of the device holds canaries, by which checked kernels see that nothing has written it.
#include <torch/csrc/utils/pybind.h>

#include <atomic>

#include "bindings/module.h"
#include "bindings/part.h"
#include "initcheck/canary.h"
#include "runtime/observer.h"

namespace hostdevice {
namespace {

class Filler final : public StreamObserver {
 public:
  std::atomic<bool> is_on{false};
  void allocate(const ObservedBlock& b) override {
    if (is_on.load(std::memory_order_relaxed)) host_sanitizer::fill_with_canaries(b.at, b.bytes);
  }
};

// Observers live until the process ends.
void fill_new_memory(bool on) {
  static Filler* filler = nullptr;
  if (!filler) {
    if (!on) return;
    filler = new Filler;
    add_observer(*filler);
  }
  filler->is_on = on;
}

void begin(PyObject* module) {
  auto m = py::reinterpret_borrow<py::module_>(module);
  m.def("fill_new_memory", &fill_new_memory, py::arg("on"));
}

}  // namespace
}  // namespace hostdevice

HOSTDEVICE_PART(initcheck, hostdevice::begin)
