// Memory for Python: statistics, snapshots and the history as torch.cuda.memory shows them, limits, pools, pinned
// memory.
//
// Two rules keep this free of deadlocks, for every binding there is and will be:
// 1. No Python object is made or dropped under a lock of the runtime: whoever holds one never waits for the
// interpreter.
//    Contexts of the history are dropped wherever their last owner is, under a lock too: they are only laid aside there
//    (`lay_aside`), and dropped by the next thread that has the interpreter anyway.
// 2. A binding that takes a lock of the runtime gives up the interpreter first (`nogil`, `without_gil`).
#include <atomic>
#include <limits>
#include <vector>

#include "bindings/module.h"
#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/limits.h"
#include "runtime/pinned.h"
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

// What a function of the runtime gives that takes a lock.
template <typename F>
auto without_gil(F&& function) {
  py::gil_scoped_release release;
  return function();
}

py::dict memory_stats_dict(int index) {
  const Stats s = without_gil([&] { return memory_stats(static_cast<c10::DeviceIndex>(index)); });
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
  const HostStats s = without_gil([] { return host_stats(); });
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

PyObject* g_frames = nullptr;  // the callable that says where the program is; the interpreter's lock protects it

// Python objects that nobody holds any more, until someone who has the interpreter drops them. A stack without a lock:
// a child may be forked while another thread lays something aside.
struct LaidAside {
  PyObject* object;
  LaidAside* next;
};
std::atomic<LaidAside*> g_laid_aside{nullptr};

void lay_aside(void* object) {
  if (!object) return;
  auto* const entry = new LaidAside{static_cast<PyObject*>(object), g_laid_aside.load(std::memory_order_relaxed)};
  while (
      !g_laid_aside.compare_exchange_weak(entry->next, entry, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

// Called with the interpreter and without a lock.
void drop_laid_aside() {
  for (auto* entry = g_laid_aside.exchange(nullptr, std::memory_order_acquire); entry != nullptr;) {
    const auto* const done = entry;
    Py_DECREF(entry->object);
    entry = entry->next;
    delete done;
  }
}

// A Python object that may be let go on any thread, under any lock.
Context hold(py::object o) {
  return Context(o.release().ptr(), &lay_aside);
}

// A call of Python from within an operator: with the interpreter, and with the host's memory for what it makes there.
struct CallingPython {
  const py::gil_scoped_acquire gil;
  const AllocateOnDevice host{-1};
};

Context frames_now() {
  if (!Py_IsInitialized()) return nullptr;
  const CallingPython here;
  drop_laid_aside();
  // The callable's own allocations, if it makes any, are not part of the history.
  static thread_local bool inside = false;
  if (!g_frames || inside || PyErr_Occurred()) return nullptr;
  inside = true;
  const py::object frames = py::reinterpret_borrow<py::object>(g_frames);  // which another thread may replace meanwhile
  PyObject* r = PyObject_CallNoArgs(frames.ptr());
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
  without_gil([&] { record_history(on, max_entries, with_frames ? &frames_now : nullptr, frames_on_free); });
  drop_laid_aside();
}

// ---- out of memory -------------------------------------------------------------------------------------------------

// Called at every shortage, for as long as the process lives; the interpreter's lock protects them.
std::vector<py::object>& observers() {
  static auto* all = new std::vector<py::object>;
  return *all;
}

// An error that an observer raises takes the place of the one it was told of, as on CUDA.
void tell_observers(const Shortage& s) {
  if (!Py_IsInitialized()) return;
  const CallingPython here;
  const py::error_scope pending;
  const auto all = observers();  // to which one of them may add
  const size_t total = s.limits.is_reduced() ? s.limits.allowed() : s.limits.total;
  for (const auto& observer : all) observer(static_cast<int>(s.device), s.wanted, total, s.limits.free(s.reserved));
}

void attach_observer(py::object observer) {
  observers().push_back(std::move(observer));
  g_shortage_observer.store(&tell_observers, std::memory_order_release);
}

py::tuple pool_tuple(const PoolId& id) {
  return py::make_tuple(id.first, id.second);
}

py::dict snapshot() {
  py::list all, traces;
  for (int i = 0; i < device_count(); i++) {
    const auto index = static_cast<c10::DeviceIndex>(i);
    const auto segs = without_gil([&] { return segments(index); });
    const auto entries = without_gil([&] { return trace(index); });
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
  m.def("snapshot", &snapshot);
  m.def(
      "record_history", &record_history_py, py::arg("enabled"), py::arg("frames") = py::none(),
      py::arg("max_entries") = std::numeric_limits<size_t>::max(), py::arg("frames_on_free") = false);
  m.def("history_enabled", &history_enabled);

  m.def("pool_retain", [](int i, uint64_t a, uint64_t b) { pool_retain(static_cast<Index>(i), {a, b}); }, nogil);
  m.def(
      "pool_begin", [](int i, uint64_t a, uint64_t b, bool mine) { pool_begin(static_cast<Index>(i), {a, b}, mine); },
      py::arg("device"), py::arg("pool_a"), py::arg("pool_b"), py::arg("this_thread_only") = true, nogil);
  m.def("pool_end", [](int i, uint64_t a, uint64_t b) { pool_end(static_cast<Index>(i), {a, b}); }, nogil);
  m.def("pool_release", [](int i, uint64_t a, uint64_t b) { pool_release(static_cast<Index>(i), {a, b}); }, nogil);
  m.def(
      "pool_use_count", [](int i, uint64_t a, uint64_t b) { return pool_use_count(static_cast<Index>(i), {a, b}); },
      nogil);

  m.def("host_stats", &host_stats_dict);
  m.def("host_empty_cache", &host_empty_cache, nogil);
  m.def("host_reset_peak_stats", &host_reset_peak_stats, nogil);
  m.def("host_reset_accumulated_stats", &host_reset_accumulated_stats, nogil);
  m.def(
      "register_pinned", [](uintptr_t p, size_t bytes) { register_pinned(reinterpret_cast<void*>(p), bytes); }, nogil);
  m.def("unregister_pinned", [](uintptr_t p) { unregister_pinned(reinterpret_cast<void*>(p)); }, nogil);
  m.def("is_pinned_address", [](uintptr_t p) { return is_pinned(reinterpret_cast<void*>(p)); }, nogil);

  m.def("allocate_on", [](int i) {
    if (i >= 0) check_index(i);
    return static_cast<int>(exchange_allocate_on(static_cast<Index>(i)));
  });
}

}  // namespace hostdevice
