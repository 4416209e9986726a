// The detector for Python.
#include <c10/core/ScalarType.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/module.h"
#include "bindings/part.h"
#include "races/calls.h"
#include "races/detector.h"
#include "runtime/kernel_accesses.h"

namespace hostdevice {
namespace {

// The function that gets each finding, and whether it may raise; it returns an exception's type to be raised later.
// Null until the detector starts. Never deleted.
py::object* g_function = nullptr;

py::object describe_line(Site site) {
  if (site < kFirstSite || !g_describe_site) return py::none();
  const SourceLine line = g_describe_site(site);
  return py::make_tuple(line.file, line.number);
}

py::dict describe_access(const AccessInfo& access, const std::string& stream) {
  py::dict d;
  d["op"] = *access.op;
  d["line"] = describe_line(access.site);
  d["in_backward"] = access.in_backward;
  d["stream"] = stream;
  // As in the timeline of a report; none on the host.
  d["lane"] = access.stream ? py::make_tuple(access.stream->device, access.stream->id) : py::object(py::none());
  d["at_ns"] = access.at_ns;
  d["writes"] = access.writes;
  d["dtype"] = c10::toString(access.type);
  d["shape"] = access.sizes;
  return d;
}

constexpr const char* kKinds[] = {"streams", "host", "freed"};

void call_python(const Finding& finding, bool can_raise) {
  const py::gil_scoped_acquire gil;
  py::dict d;
  d["kind"] = kKinds[static_cast<size_t>(finding.kind)];
  d["earlier"] = describe_access(finding.earlier, finding.earlier_stream);
  d["later"] = describe_access(finding.later, finding.later_stream);
  d["owner_stream"] = finding.owner_stream;
  d["allocated"] = describe_line(finding.allocated);
  d["freed"] = describe_line(finding.freed);
  d["device"] = static_cast<int>(finding.device);
  d["waits_for_earlier_work"] = finding.waits_for_earlier_work;
  const py::object error = (*g_function)(d, can_raise);
  // torch drops the errors of callbacks on the host's calls, so the thread raises this once it runs Python again.
  if (!error.is_none()) PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), error.ptr());
}

// There is no end: streams and memory that were not observed from the start would give false findings later.
void start(const py::object& function) {
  const bool is_first = g_function == nullptr;
  delete std::exchange(g_function, new py::object(function));
  if (!is_first) return;
  Detector::report = &call_python;
  add_observer(Detector::get());
  Detector::get().watch_pages();
  intercept_calls();
  observe_host_operators();
  g_watches_kernels.store(true);
}

void begin(PyObject* module) {
  auto m = py::reinterpret_borrow<py::module_>(module);
  keep_types_of_errors();
  m.def("check_streams", &start, py::arg("report"));
  m.def("forget_races", [] { Detector::get().forget_findings(); }, py::call_guard<py::gil_scoped_release>());
}

}  // namespace
}  // namespace hostdevice

HOSTDEVICE_PART(races, hostdevice::begin)
