#include "bindings/module.h"

#include <c10/util/Exception.h>
#include <torch/csrc/Generator.h>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "operators/install.h"
#include "operators/parts.h"
#include "operators/registration.h"
#include "operators/widening.h"
#include "rescue/rescue.h"
#include "runtime/allocator.h"
#include "runtime/capability.h"
#include "runtime/device.h"
#include "runtime/generator.h"
#include "runtime/install.h"
#include "runtime/libraries.h"
#include "runtime/mps_storage.h"
#include "runtime/multiprocessors.h"

namespace hostdevice {
namespace {

// Discards warnings: registering over the kernels of a CUDA build is intended.
struct DiscardWarnings final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

int g_installed = 0;

// Return a function that calls Python's loader of parts from any thread, with or without the GIL.
std::function<void(const std::string&)> make_loader(const py::function& load) {
  PyObject* const kept = load.inc_ref().ptr();  // for the rest of the process
  return [kept](const std::string& part) {
    const py::gil_scoped_acquire gil;
    std::string why;
    try {
      py::reinterpret_borrow<py::function>(kept)(part);
      return;
    } catch (py::error_already_set& error) {
      if (error.matches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();
      why = std::string(py::str(error.value()));
    }
    TORCH_CHECK(false, why);
  };
}

// The operators of the parts, each with its part and its dispatch key, and the loader of parts. Set before install().
std::vector<DeferredOperator> g_deferred;
std::function<void(const std::string&)> g_load;
void set_parts(
    const std::vector<std::tuple<std::string, std::string, std::string>>& operators, const py::function& load) {
  g_deferred.clear();
  for (const auto& [part, key, name] : operators) g_deferred.push_back({part, key, name});
  g_load = make_loader(load);
}

bool install(int count, const std::vector<int64_t>& limits) {
  TORCH_CHECK(count >= 1 && count <= kMaxDevices, "device_count must be 1 to ", kMaxDevices, ", not ", count);
  TORCH_CHECK(kIsCuda || count == 1, "there is one mps device");
  TORCH_CHECK(
      limits.size() == static_cast<size_t>(count), "one memory limit per device: expected ", count, ", got ",
      limits.size());
  static bool done = false;
  TORCH_CHECK(!done || count == g_installed, "already installed with ", g_installed, " devices");
  for (int i = 0; i < count; i++) {
    TORCH_CHECK(limits[static_cast<size_t>(i)] > 0, "a memory limit must be positive");
    set_memory_limit(static_cast<c10::DeviceIndex>(i), static_cast<size_t>(limits[static_cast<size_t>(i)]));
  }
  g_device_count = g_installed = count;
  if (done) return true;
  done = true;
  DiscardWarnings handler;
  const c10::WarningUtils::WarningHandlerGuard guard(&handler);
  install_allocators();
  install_guard();
  const bool hooked = install_hooks();
  register_stand_ins(g_deferred, g_load);
  register_direct_kernels();
  register_hot_kernels();
  register_composites();
  register_fft();
  register_bridge();
  register_boxed_kernels();
#ifdef HOSTDEVICE_CUDA
  publish_kernel_abi();
#endif
  if constexpr (!kIsCuda) install_mps_protection();
  install_fork_handlers();
  py::module_::import("atexit").attr("register")(
      py::cpp_function([] { prepare_exit(); }, py::call_guard<py::gil_scoped_release>()));
  return hooked;
}

// `python_kernels` lists the kernels registered from Python (torch.library), which stay: they run on any tensor.
bool take_over(const py::set& python_kernels) {
  if (!gpu_code_was_loaded()) return false;
  DiscardWarnings handler;
  const c10::WarningUtils::WarningHandlerGuard guard(&handler);
  take_over_foreign_kernels([&](const std::string& kernel) { return python_kernels.contains(kernel); });
  return true;
}

// Keep the set itself, because Python adds to it. It is read when a program calls an operator that has only a CPU
// kernel.
void set_python_kernels(const py::set& python_kernels) {
  static PyObject* kept = nullptr;
  Py_XDECREF(kept);
  kept = python_kernels.inc_ref().ptr();
  g_is_python_kernel = [](const std::string& kernel) {
    const py::gil_scoped_acquire gil;
    return py::reinterpret_borrow<py::set>(kept).contains(kernel);
  };
}

void bind_device(py::module_& m) {
  m.attr("device_type") = kIsCuda ? "cuda" : "mps";
  m.def("install", &install, py::arg("device_count"), py::arg("memory_limits"));
  m.def("set_parts", &set_parts, py::arg("operators"), py::arg("load"));
  m.def("find_unfilled", &find_unfilled, py::arg("part"));
  m.def(
      "set_capability", [](int major, int minor, int cudnn) { g_capability = {major, minor, cudnn}; }, py::arg("major"),
      py::arg("minor"), py::arg("cudnn"));
  m.def("take_over", &take_over, py::arg("written"));
  m.def("keep_narrow", &keep_narrow, py::arg("family"), py::arg("type"));
  m.def("know_written", &set_python_kernels, py::arg("written"));
  m.def("device_count", [] { return device_count(); });
  m.def("in_bad_fork", [] { return g_bad_fork; });
  m.def("is_used", [] { return g_used.load(); });
  m.def("mark_used", [] { mark_used(); });

  m.def("get_device", [] { return static_cast<int>(t_current_device); });
  m.def("set_device", [](int i) {
    check_fork();
    check_index(i);
    mark_context(i);
    t_current_device = static_cast<Index>(i);
  });
  m.def("has_context", [](int i) { return has_context(i); });
  // Set how many of the installed devices the program sees: CUDA_VISIBLE_DEVICES takes effect until the first use.
  m.def("show_devices", [](int count) {
    TORCH_CHECK(count >= 0 && count <= g_installed, "there are ", g_installed, " devices, not ", count);
    g_device_count = count;
  });
  m.def("exchange_device", [](int i) {
    const int old = t_current_device;
    if (i >= 0) {
      check_fork();
      check_index(i);
      t_current_device = static_cast<Index>(i);
    }
    return old;
  });
  m.def(
      "set_multiprocessors", [](int64_t count, int64_t threads) { set_multiprocessors({count, threads}); },
      py::arg("count"), py::arg("threads"));
  m.def(
      "next_seed",
      [](int i, int64_t count) { return next_seed(at::Generator(), resolve(static_cast<Index>(i)), count); },
      py::arg("device") = -1, py::arg("count") = 1, py::call_guard<py::gil_scoped_release>());
  m.def(
      "default_generator",
      [](int i) {
        return py::reinterpret_steal<py::object>(THPGenerator_Wrap(default_generator(static_cast<Index>(i))));
      },
      py::arg("device") = -1);
}

}  // namespace
}  // namespace hostdevice

#ifdef HOSTDEVICE_CUDA
PYBIND11_MODULE(_hostdevice_cuda, m) {
#else
PYBIND11_MODULE(_hostdevice_mps, m) {
#endif
  m.doc() = "A PyTorch device over host memory.";
  hostdevice::keep_types_of_errors();
  hostdevice::bind_device(m);
  hostdevice::bind_memory(m);
  hostdevice::bind_history(m);
  if (!hostdevice::add_rescue(m.ptr())) throw pybind11::error_already_set();
  hostdevice::bind_streams(m);
  hostdevice::bind_ipc(m);
#ifdef HOSTDEVICE_CUDA
  hostdevice::bind_profiling(m);
#endif
}
