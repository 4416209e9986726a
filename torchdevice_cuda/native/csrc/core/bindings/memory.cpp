// Python bindings for memory: statistics, settings, limits, pools, pinned memory. The history is in history.cpp.
//
// Two rules prevent deadlocks, for all bindings:
// 1. Create and destroy no Python object under a lock of the runtime: a thread that holds such a lock never waits for
//    the GIL.
// 2. A binding that takes a lock of the runtime releases the GIL first (`nogil`, `without_gil`).
#include <ATen/Context.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/module.h"
#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/host.h"
#include "runtime/limits.h"
#include "runtime/pinned.h"
#include "runtime/published.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

py::dict stat_dict(const Stat& s) {
  py::dict d;
  d["current"] = s.current;
  d["peak"] = s.peak;
  d["allocated"] = s.allocated;
  d["freed"] = s.freed;
  return d;
}
py::dict stat_dict(const StatArray& a) {
  py::dict d;
  d["all"] = stat_dict(a[kAll]);
  d["small_pool"] = stat_dict(a[kSmallPool]);
  d["large_pool"] = stat_dict(a[kLargePool]);
  return d;
}

py::dict memory_stats_dict(int index) {
  const auto i = static_cast<Index>(index);
  const Stats s = without_gil([&] { return memory_stats(i); });
  const int64_t rejections = without_gil([&] { return memory_rejections(i); });
  py::dict d;
  d["num_alloc_retries"] = s.num_alloc_retries;
  d["num_ooms"] = s.num_ooms;
  d["max_split_size"] = s.max_split_size;
  d["num_sync_all_streams"] = s.num_sync_all_streams;
  d["num_device_alloc"] = s.num_device_alloc;
  d["num_device_free"] = s.num_device_free;
  d["num_oom_rejections"] = rejections;
  d["allocation"] = stat_dict(s.allocation);
  d["segment"] = stat_dict(s.segment);
  d["active"] = stat_dict(s.active);
  d["inactive_split"] = stat_dict(s.inactive_split);
  d["allocated_bytes"] = stat_dict(s.allocated_bytes);
  d["reserved_bytes"] = stat_dict(s.reserved_bytes);
  d["active_bytes"] = stat_dict(s.active_bytes);
  d["inactive_split_bytes"] = stat_dict(s.inactive_split_bytes);
  d["requested_bytes"] = stat_dict(s.requested_bytes);
  d["oversize_allocations"] = stat_dict(s.oversize_allocations);
  d["oversize_segments"] = stat_dict(s.oversize_segments);
  return d;
}

py::dict stat_dict(const Times& t) {
  py::dict d;
  d["total"] = t.total;
  d["max"] = t.max;
  d["min"] = t.min;
  d["count"] = t.count;
  d["avg"] = t.count == 0 ? 0 : t.total / t.count;
  return d;
}

py::dict host_stats_dict() {
  const HostStats s = without_gil([] { return host_stats(); });
  py::dict d;
  d["num_host_alloc"] = s.num_host_alloc;
  d["num_host_free"] = s.num_host_free;
  d["alloc_time"] = stat_dict(s.alloc_time);
  d["free_time"] = stat_dict(s.free_time);
  d["allocation"] = stat_dict(s.allocation);
  d["segment"] = stat_dict(s.segment);
  d["allocated_bytes"] = stat_dict(s.allocated_bytes);
  d["reserved_bytes"] = stat_dict(s.reserved_bytes);
  return d;
}

// ---- out of memory -------------------------------------------------------------------------------------------------

// Called at every shortage for the rest of the process. The GIL protects the list.
std::vector<py::object>& observers() {
  static auto* all = new std::vector<py::object>;
  return *all;
}

// A call of Python from within an operator: it holds the GIL, and allocates CPU tensors in host memory.
struct CallingPython {
  const py::gil_scoped_acquire gil;
  const AllocateOnDevice host{-1};
};

// Call all observers. An error that an observer raises replaces the out-of-memory error, as on CUDA.
void call_observers(const OutOfMemoryInfo& s) {
  if (!Py_IsInitialized()) return;
  const CallingPython here;
  const py::error_scope pending;
  const auto all = observers();  // a copy, because an observer may attach another
  const size_t total = s.limits.is_reduced() ? s.limits.allowed() : s.limits.total;
  for (const auto& observer : all) observer(static_cast<int>(s.device), s.wanted, total, s.free);
}

void attach_observer(py::object observer) {
  observers().push_back(std::move(observer));
  g_oom_observer.store(&call_observers, std::memory_order_release);
}

// ---- settings -------------------------------------------------------------------------------------------------------

void configure(const py::dict& settings) {
  Options options;
  options.max_split = settings["max_split"].cast<size_t>();
  options.large_segment = settings["large_segment"].cast<size_t>();
  options.max_rounding = settings["max_rounding"].cast<size_t>();
  options.garbage_collection_threshold = settings["collect_above"].cast<double>();
  options.divisions = settings["divisions"].cast<decltype(options.divisions)>();
  options.async = settings["async"].cast<bool>();
  options.expandable = settings["expandable"].cast<bool>();
  options.reuses_in_capture = settings["reuses_in_capture"].cast<bool>();
  options.reject_fraction = settings["reject_beyond"].cast<double>();
  const auto rounded = settings["pinned_rounded"].cast<size_t>(), kept = settings["pinned_kept"].cast<size_t>();
  without_gil([&] {
    set_memory_options(options);
    set_pinned_limits(rounded, kept);
  });
}

}  // namespace

void bind_memory(py::module_& m) {
  const auto nogil = py::call_guard<py::gil_scoped_release>();

  m.def("memory_stats", &memory_stats_dict, py::arg("device") = -1);
  m.def(
      "memory_allocated", [](int i) { return memory_in_use(static_cast<Index>(i)).first; }, py::arg("device") = -1,
      nogil);
  m.def("mem_info", [](int i) { return memory_info(static_cast<Index>(i)); }, py::arg("device") = -1, nogil);
  m.def("mark_context", [](int i) { mark_context(resolve(static_cast<Index>(i))); });
  m.def("reset_peak_stats", [](int i) { reset_peak_stats(static_cast<Index>(i)); }, py::arg("device") = -1, nogil);
  m.def(
      "reset_accumulated_stats", [](int i) { reset_accumulated_stats(static_cast<Index>(i)); }, py::arg("device") = -1,
      nogil);
  m.def(
      "set_fraction", [](double f, int i) { set_memory_fraction(static_cast<Index>(i), f); }, py::arg("fraction"),
      py::arg("device") = -1, nogil);
  m.def("get_fraction", [](int i) { return memory_fraction(static_cast<Index>(i)); }, py::arg("device") = -1, nogil);
  m.def(
      "set_limit",
      [](int64_t bytes, int i) {
        TORCH_CHECK(bytes > 0, "a memory limit must be positive");
        set_memory_limit(resolve(static_cast<Index>(i)), static_cast<size_t>(bytes));
      },
      py::arg("bytes"), py::arg("device") = -1, nogil);
  m.def(
      "empty_cache", [](uint64_t a, uint64_t b) { empty_cache({a, b}); }, py::arg("pool_a") = 0, py::arg("pool_b") = 0,
      nogil);
  m.def(
      "raw_alloc",
      [](size_t bytes, int i, int64_t stream) {
        return reinterpret_cast<uintptr_t>(raw_allocate(static_cast<Index>(i), bytes, stream));
      },
      py::arg("bytes"), py::arg("device") = -1, py::arg("stream") = 0, nogil);
  m.def("raw_delete", [](uintptr_t p) { raw_delete(reinterpret_cast<void*>(p)); }, nogil);
  m.def("attach_out_of_memory_observer", &attach_observer);
  m.def(
      "resize_storage",
      [](uintptr_t storage, int64_t bytes) { resize_storage(reinterpret_cast<c10::StorageImpl*>(storage), bytes); },
      py::arg("storage"), py::arg("bytes"), nogil);
  m.def("allocator_address", [] { return reinterpret_cast<uintptr_t>(device_allocator()); });
  m.def(
      "device_of_address", [](uintptr_t p) { return static_cast<int>(device_of_address(reinterpret_cast<void*>(p))); },
      nogil);
  m.def(
      "segment_of_address",
      [](uintptr_t p) {
        const auto s = segment_of_address(reinterpret_cast<void*>(p));
        return std::make_pair(reinterpret_cast<uintptr_t>(s.first), s.second);
      },
      nogil);
  m.def("configure", &configure);
  m.def("set_caching", &set_caching);
  m.def("watch_host", [](const std::vector<std::tuple<size_t, std::string, std::string>>& groups) {
    std::vector<HostGroup> all;
    for (const auto& [limit, usage, statistics] : groups) all.push_back({limit, usage, statistics});
    set_control_groups(std::move(all));
  });
  m.def("host_left", &host_left, nogil);
  m.def("publish_at", &publish_at, py::arg("address"));

  m.def("pool_retain", [](int i, uint64_t a, uint64_t b) { pool_retain(static_cast<Index>(i), {a, b}); }, nogil);
  m.def(
      "pool_begin", [](int i, uint64_t a, uint64_t b, bool mine) { pool_begin(static_cast<Index>(i), {a, b}, mine); },
      py::arg("device"), py::arg("pool_a"), py::arg("pool_b"), py::arg("this_thread_only") = true, nogil);
  m.def("pool_end", [](int i, uint64_t a, uint64_t b) { pool_end(static_cast<Index>(i), {a, b}); }, nogil);
  m.def("pool_release", [](int i, uint64_t a, uint64_t b) { pool_release(static_cast<Index>(i), {a, b}); }, nogil);
  m.def("pool_no_split", [](int i, uint64_t a, uint64_t b) { pool_no_split(static_cast<Index>(i), {a, b}); }, nogil);
  m.def(
      "pool_use_on_oom",
      [](int i, uint64_t a, uint64_t b, bool use) { pool_use_on_oom(static_cast<Index>(i), {a, b}, use); }, nogil);
  m.def(
      "pool_use_count", [](int i, uint64_t a, uint64_t b) { return pool_use_count(static_cast<Index>(i), {a, b}); },
      nogil);

  m.def("host_stats", &host_stats_dict);
  m.def("host_empty_cache", &host_empty_cache, nogil);
  m.def("host_reset_peak_stats", &host_reset_peak_stats, nogil);
  m.def("host_reset_accumulated_stats", &host_reset_accumulated_stats, nogil);
  m.def(
      "register_pinned",
      [](uintptr_t p, size_t bytes) {
        at::globalContext().lazyInitDevice(kType);  // before that, PyTorch reports no memory as pinned
        register_pinned(reinterpret_cast<void*>(p), bytes);
      },
      nogil);
  m.def("unregister_pinned", [](uintptr_t p) { unregister_pinned(reinterpret_cast<void*>(p)); }, nogil);
  m.def("is_pinned_address", [](uintptr_t p) { return is_pinned(reinterpret_cast<void*>(p)); }, nogil);

  m.def("allocate_on", [](int i) {
    if (i >= 0) check_index(i);
    return static_cast<int>(exchange_allocate_on(static_cast<Index>(i)));
  });
}

}  // namespace hostdevice
