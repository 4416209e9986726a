// The Python module. README.md beside this file documents every function.
#include <Python.h>
#include <c10/util/Exception.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Generator.h>

#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/generator.h"
#include "runtime/install.h"
#include "runtime/streams.h"

namespace py = pybind11;

// Declared in torch/csrc/Exceptions.h, which takes longer to compile than all of this file.
namespace torch {
C10_IMPORT void translate_exception_to_python(const std::exception_ptr&);
}

namespace hostdevice {
namespace {

// Registering over kernels a CUDA build already has is the point there, not something to warn about.
struct Silent final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

bool install(int count, const std::vector<int64_t>& limits) {
  TORCH_CHECK(count >= 1 && count <= kMaxDevices, "device_count must be 1 to ", kMaxDevices, ", not ", count);
  TORCH_CHECK(kIsCuda || count == 1, "there is one mps device");
  TORCH_CHECK(
      limits.size() == static_cast<size_t>(count), "one memory limit per device: expected ", count, ", got ",
      limits.size());
  static bool done = false;
  TORCH_CHECK(!done || count == device_count(), "already installed with ", device_count(), " devices");
  for (int i = 0; i < count; i++) {
    TORCH_CHECK(limits[static_cast<size_t>(i)] > 0, "a memory limit must be positive");
    set_memory_limit(static_cast<c10::DeviceIndex>(i), static_cast<size_t>(limits[static_cast<size_t>(i)]));
  }
  g_device_count = count;
  if (done) return true;
  done = true;
  Silent silent;
  const c10::WarningUtils::WarningHandlerGuard quiet(&silent);
  install_allocators();
  install_guard();
  const bool hooked = install_hooks();
  register_direct_kernels();
  register_hot_kernels();
  register_composites();
  register_fft();
  register_bridge();
  register_boxed_kernels();
  install_fork_handlers();
  py::module_::import("atexit").attr("register")(
      py::cpp_function([] { drain_autograd(); }, py::call_guard<py::gil_scoped_release>()));
  return hooked;
}

// ---- statistics ---------------------------------------------------------------------------------------------------

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
  const Stats s = memory_stats(static_cast<c10::DeviceIndex>(index));
  py::dict d;
  d["num_alloc_retries"] = s.num_alloc_retries;
  d["num_ooms"] = s.num_ooms;
  d["max_split_size"] = -1;
  d["num_sync_all_streams"] = s.num_sync_all_streams;
  d["num_device_alloc"] = s.num_device_alloc;
  d["num_device_free"] = s.num_device_free;
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

py::dict host_stats_dict() {
  const HostStats s = host_stats();
  py::dict d;
  d["num_host_alloc"] = s.num_host_alloc;
  d["num_host_free"] = s.num_host_free;
  d["allocation"] = stat_dict(s.allocation);
  d["segment"] = stat_dict(s.segment);
  d["allocated_bytes"] = stat_dict(s.allocated_bytes);
  d["reserved_bytes"] = stat_dict(s.reserved_bytes);
  return d;
}

// ---- history ------------------------------------------------------------------------------------------------------

PyObject* g_frames = nullptr;  // the callable that says where the program is

// A Python object that may be dropped on any thread.
Context hold(py::object o) {
  return Context(o.release().ptr(), [](void* p) {
    if (!p || !Py_IsInitialized()) return;
    py::gil_scoped_acquire gil;
    Py_DECREF(static_cast<PyObject*>(p));
  });
}

Context frames_now() {
  if (!g_frames || !Py_IsInitialized()) return nullptr;
  py::gil_scoped_acquire gil;
  // The callable's own allocations, if it makes any, are not part of the history.
  static thread_local bool inside = false;
  if (inside || PyErr_Occurred()) return nullptr;
  inside = true;
  PyObject* r = PyObject_CallNoArgs(g_frames);
  inside = false;
  if (!r) {
    PyErr_Clear();
    return nullptr;
  }
  return hold(py::reinterpret_steal<py::object>(r));
}

py::object frames_of(const Context& c) {
  if (!c) return py::list();
  return py::reinterpret_borrow<py::object>(static_cast<PyObject*>(c.get()));
}

void record_history_py(const py::object& enabled, py::object frames, size_t max_entries, bool frames_on_free) {
  const bool on = !enabled.is_none() && py::cast<bool>(py::bool_(enabled));
  PyObject* old = g_frames;
  g_frames = on && !frames.is_none() ? frames.release().ptr() : nullptr;
  Py_XDECREF(old);
  const bool with_frames = g_frames != nullptr;
  py::gil_scoped_release release;
  record_history(on, max_entries, with_frames ? &frames_now : nullptr, frames_on_free);
}

py::tuple pool_tuple(const PoolId& id) {
  return py::make_tuple(id.first, id.second);
}

py::dict snapshot() {
  py::list all, traces;
  for (int i = 0; i < device_count(); i++) {
    const auto index = static_cast<c10::DeviceIndex>(i);
    std::vector<SegmentInfo> segs;
    std::vector<TraceEntry> entries;
    {
      py::gil_scoped_release release;
      segs = segments(index);
      entries = trace(index);
    }
    for (const auto& s : segs) {
      py::dict d;
      d["device"] = i;
      d["address"] = s.address;
      d["total_size"] = s.total;
      d["allocated_size"] = s.allocated;
      d["active_size"] = s.active;
      d["requested_size"] = s.requested;
      d["stream"] = stream_handle(index, s.stream);
      d["segment_type"] = s.large ? "large" : "small";
      d["segment_pool_id"] = pool_tuple(s.pool);
      d["is_expandable"] = false;
      d["frames"] = frames_of(s.context);
      py::list blocks;
      for (const auto& b : s.blocks) {
        py::dict e;
        e["address"] = b.address;
        e["size"] = b.size;
        e["requested_size"] = b.requested;
        e["state"] = b.state;
        e["frames"] = frames_of(b.context);
        blocks.append(e);
      }
      d["blocks"] = blocks;
      all.append(d);
    }
    static const char* const kActions[] = {"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free",
                                           "oom",   "snapshot"};
    py::list list;
    for (const auto& t : entries) {
      py::dict d;
      d["action"] = kActions[static_cast<size_t>(t.action)];
      d[t.action == Action::Oom ? "device_free" : "addr"] = t.address;
      d["size"] = t.size;
      d["stream"] = stream_handle(index, t.stream);
      d["time_us"] = t.time_us;
      d["compile_context"] = "N/A";
      d["user_metadata"] = "";
      d["pool_id"] = pool_tuple(t.pool);
      if (t.context) d["frames"] = frames_of(t.context);
      list.append(d);
    }
    traces.append(list);
  }
  py::dict settings;
  settings["PYTORCH_CUDA_ALLOC_CONF"] = "";
  settings["max_split_size"] = -1;
  settings["garbage_collection_threshold"] = 0.0;
  settings["expandable_segments"] = false;
  settings["pinned_num_register_threads"] = 1;
  settings["release_lock_on_malloc"] = false;
  settings["pinned_use_host_register"] = false;
  settings["roundup_power2_divisions"] = py::dict();
  py::dict out;
  out["segments"] = all;
  out["device_traces"] = traces;
  out["allocator_settings"] = settings;
  out["external_annotations"] = py::list();
  return out;
}

// ---- events -------------------------------------------------------------------------------------------------------

struct PyEvent {
  EventState state;
  bool recorded() const {
    return state.time_ns.load() >= 0;
  }
};

}  // namespace

void bind(py::module_& m);
void bind(py::module_& m) {
  const auto nogil = py::call_guard<py::gil_scoped_release>();
  using Index = c10::DeviceIndex;

  m.attr("device_type") = kIsCuda ? "cuda" : "mps";
  m.def("install", &install, py::arg("device_count"), py::arg("memory_limits"));
  m.def("device_count", [] { return device_count(); });
  m.def("in_bad_fork", [] { return g_bad_fork; });
  m.def("is_used", [] { return g_used.load(); });
  m.def("mark_used", [] { mark_used(); });

  m.def("get_device", [] { return static_cast<int>(t_current_device); });
  m.def("set_device", [](int i) {
    check_fork();
    check_index(i);
    t_current_device = static_cast<Index>(i);
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

  m.def("memory_stats", &memory_stats_dict, py::arg("device") = -1);
  m.def(
      "memory_allocated", [](int i) { return memory_stats(static_cast<Index>(i)).allocated_bytes[kAll].current; },
      py::arg("device") = -1);
  m.def("mem_info", [](int i) { return memory_info(static_cast<Index>(i)); }, py::arg("device") = -1);
  m.def("reset_peak_stats", [](int i) { reset_peak_stats(static_cast<Index>(i)); }, py::arg("device") = -1);
  m.def(
      "reset_accumulated_stats", [](int i) { reset_accumulated_stats(static_cast<Index>(i)); }, py::arg("device") = -1);
  m.def(
      "set_fraction", [](double f, int i) { set_memory_fraction(static_cast<Index>(i), f); }, py::arg("fraction"),
      py::arg("device") = -1);
  m.def("get_fraction", [](int i) { return memory_fraction(static_cast<Index>(i)); }, py::arg("device") = -1);
  m.def(
      "set_limit",
      [](int64_t bytes, int i) {
        TORCH_CHECK(bytes > 0, "a memory limit must be positive");
        set_memory_limit(resolve(static_cast<Index>(i)), static_cast<size_t>(bytes));
      },
      py::arg("bytes"), py::arg("device") = -1);
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
  m.def("allocator_address", [] { return reinterpret_cast<uintptr_t>(device_allocator()); });
  m.def(
      "device_of_address", [](uintptr_t p) { return static_cast<int>(device_of_address(reinterpret_cast<void*>(p))); });
  m.def("segment_of_address", [](uintptr_t p) {
    const auto s = segment_of_address(reinterpret_cast<void*>(p));
    return std::make_pair(reinterpret_cast<uintptr_t>(s.first), s.second);
  });
  m.def("snapshot", &snapshot);
  m.def(
      "record_history", &record_history_py, py::arg("enabled"), py::arg("frames") = py::none(),
      py::arg("max_entries") = std::numeric_limits<size_t>::max(), py::arg("frames_on_free") = false);
  m.def("history_enabled", &history_enabled);

  m.def(
      "pool_begin", [](int i, uint64_t a, uint64_t b, bool mine) { pool_begin(static_cast<Index>(i), {a, b}, mine); },
      py::arg("device"), py::arg("pool_a"), py::arg("pool_b"), py::arg("this_thread_only") = true);
  m.def("pool_end", [](int i, uint64_t a, uint64_t b) { pool_end(static_cast<Index>(i), {a, b}); });
  m.def("pool_release", [](int i, uint64_t a, uint64_t b) { pool_release(static_cast<Index>(i), {a, b}); });
  m.def("pool_use_count", [](int i, uint64_t a, uint64_t b) { return pool_use_count(static_cast<Index>(i), {a, b}); });

  m.def("host_stats", &host_stats_dict);
  m.def("host_empty_cache", &host_empty_cache);
  m.def("host_reset_peak_stats", &host_reset_peak_stats);
  m.def("host_reset_accumulated_stats", &host_reset_accumulated_stats);
  m.def("is_pinned_address", [](uintptr_t p) { return is_pinned(reinterpret_cast<void*>(p)); });

  m.def(
      "stream_new", [](int i, int priority) { return new_stream(static_cast<Index>(i), priority); },
      py::arg("device") = -1, py::arg("priority") = 0);
  m.def("stream_current", [](int i) { return current_stream(static_cast<Index>(i)); }, py::arg("device") = -1);
  m.def("stream_set", [](int i, int64_t id) { return exchange_stream(static_cast<Index>(i), id); });
  m.def("stream_query", [](int i, int64_t id) { return stream_idle(stream_state(static_cast<Index>(i), id)); });
  m.def(
      "stream_synchronize",
      [](int i, int64_t id) {
        check_fork();
        wait_until(stream_state(static_cast<Index>(i), id).ready_ns.load());
      },
      nogil);
  m.def("stream_priority", [](int i, int64_t id) { return stream_priority(static_cast<Index>(i), id); });
  m.def("stream_handle", [](int i, int64_t id) { return stream_handle(static_cast<Index>(i), id); });
  m.def("stream_priority_range", [] { return std::make_pair(kLowestPriority, kHighestPriority); });
  m.def("synchronize", [](int i) { synchronize_device(static_cast<Index>(i)); }, py::arg("device") = -1, nogil);
  m.def(
      "sleep", [](int64_t cycles, int i) { sleep_current_stream(static_cast<Index>(i), cycles); }, py::arg("cycles"),
      py::arg("device") = -1);

  py::class_<PyEvent>(m, "Event")
      .def(py::init<>())
      .def(
          "record",
          [](PyEvent& e, int i, int64_t id) {
            e.state.device = resolve(static_cast<Index>(i));
            event_record(e.state, stream_state(e.state.device, id));
          },
          py::arg("device"), py::arg("stream"))
      .def(
          "block",
          [](PyEvent& e, int i, int64_t id) {
            if (e.recorded()) event_block(e.state, stream_state(static_cast<Index>(i), id));
          },
          py::arg("device"), py::arg("stream"))
      .def("query", [](PyEvent& e) { return !e.recorded() || event_done(e.state); })
      .def(
          "synchronize",
          [](PyEvent& e) {
            if (e.recorded()) wait_until(e.state.time_ns.load());
          },
          nogil)
      .def("elapsed_time", [](PyEvent& a, PyEvent& b) { return event_elapsed_ms(a.state, b.state); })
      .def_property_readonly("recorded", &PyEvent::recorded)
      .def_property_readonly("handle", [](PyEvent& e) { return reinterpret_cast<uintptr_t>(&e.state); });

  m.def("allocate_on", [](int i) {
    if (i >= 0) check_index(i);
    return static_cast<int>(exchange_allocate_on(static_cast<Index>(i)));
  });
  m.def(
      "next_seed",
      [](int i, int64_t count) { return next_seed(at::Generator(), resolve(static_cast<Index>(i)), count); },
      py::arg("device") = -1, py::arg("count") = 1);
  m.def(
      "default_generator",
      [](int i) {
        return py::reinterpret_steal<py::object>(THPGenerator_Wrap(default_generator(static_cast<Index>(i))));
      },
      py::arg("device") = -1);
}

}  // namespace hostdevice

#ifdef HOSTDEVICE_CUDA
PYBIND11_MODULE(_hostdevice_cuda, m) {
#else
PYBIND11_MODULE(_hostdevice_mps, m) {
#endif
  m.doc() = "A PyTorch device over host memory.";
  // torch's own errors (AcceleratorError, OutOfMemoryError, NotImplementedError ...) keep their types on the way out.
  pybind11::register_local_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const c10::Error&) {
      torch::translate_exception_to_python(p);
    }
  });
  hostdevice::bind(m);
}
