// The counters of a report, for Python.
#include <string>
#include <utility>
#include <vector>

#include "bindings/module.h"
#include "bindings/part.h"
#include "counting/lines.h"
#include "counting/shortages.h"
#include "counting/timeline.h"
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
  begin_timeline();
  begin_counting(allocated);
  watch_for_shortages();
}

// Indexed by Counted.
constexpr const char* kKinds[] = {"kernel", "copy", "wait", "stream wait", "graph"};

py::list list_spans(const std::vector<TimelineSpan>& spans) {
  py::list found;
  for (const auto& one : spans) {
    const Span& span = one.first;
    found.append(
        py::make_tuple(
            kKinds[static_cast<size_t>(span.kind)], static_cast<int>(span.device), span.stream, *span.name, span.site,
            span.began_ns, span.ns, one.busy_ns, one.calls, span.bytes, span.of_graph));
  }
  return found;
}

py::dict to_dict(const Shortage& one) {
  py::dict d;
  d["device"] = static_cast<int>(one.info.device);
  d["at_ns"] = one.at_ns;
  d["site"] = one.site;
  d["requested"] = one.info.requested;
  d["allocated"] = one.info.allocated;
  d["reserved"] = one.info.reserved;
  d["in_private_pools"] = one.info.in_private_pools;
  d["free"] = one.info.free;
  d["largest_block"] = one.info.largest_block;
  d["allowed"] = one.info.limits.allowed();
  d["total"] = one.info.limits.total;
  d["holders"] = one.holders;
  return d;
}

py::dict read(bool clear) {
  const Counts counts = without_gil([&] { return read_counts(clear); });
  const auto spans = without_gil([&] { return read_timeline(clear); });
  const auto shortages = without_gil([&] { return read_shortages(clear); });
  py::list rows, memory, sites, short_of_memory;
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
  for (const auto& one : shortages) short_of_memory.append(to_dict(one));
  out["rows"] = rows;
  out["spans"] = list_spans(spans);
  out["shortages"] = short_of_memory;
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
