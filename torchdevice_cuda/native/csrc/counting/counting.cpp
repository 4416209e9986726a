// The counters of a report, for Python.
#include <string>
#include <utility>
#include <vector>

#include "bindings/module.h"
#include "bindings/part.h"
#include "counting/lines.h"
#include "runtime/activities.h"
#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/ledger.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

void start(std::vector<std::string> hidden) {
  find_lines(std::move(hidden));
  std::vector<int64_t> allocated;
  for (int i = 0; i < device_count(); i++)
    allocated.push_back(static_cast<int64_t>(memory_in_use(static_cast<Index>(i)).first));
  begin_counting(allocated);
}

constexpr const char* kKinds[] = {"kernel", "copy", "wait"};

py::dict read(bool clear) {
  const Counts counts = without_gil([&] { return read_counts(clear); });
  py::list rows, memory, sites;
  for (const auto& row : counts.rows)
    rows.append(
        py::make_tuple(kKinds[static_cast<size_t>(row.kind)], row.name, row.site, row.calls, row.ns, row.bytes));
  for (const auto& one : counts.memory) {
    py::dict d;
    d["device"] = static_cast<int>(one.device);
    d["peak"] = one.peak;
    d["peak_ns"] = one.peak_ns;
    d["now"] = one.now;
    d["held_at_peak"] = one.held_at_peak;
    py::list steps;
    for (const auto& step : one.steps) steps.append(py::make_tuple(step.since_ns, step.most, step.last));
    d["steps"] = steps;
    memory.append(d);
  }
  for (const auto& line : without_gil([] { return list_lines(); }))
    sites.append(py::make_tuple(line.file, line.number, line.function));
  py::dict out;
  out["rows"] = rows;
  out["memory"] = memory;
  out["sites"] = sites;
  out["now_ns"] = now_ns();
  return out;
}

void begin(PyObject* module) {
  auto m = py::reinterpret_borrow<py::module_>(module);
  keep_types_of_errors();
  m.def("find_lines", &find_lines, py::arg("hidden"));
  m.def("start_counting", &start, py::arg("hidden"));
  m.def("stop_counting", &end_counting, py::call_guard<py::gil_scoped_release>());
  m.def("is_counted", [] { return is_counted(); });
  m.def("read_counts", &read, py::arg("clear") = false);
}

}  // namespace
}  // namespace hostdevice

HOSTDEVICE_PART(counting, hostdevice::begin)
