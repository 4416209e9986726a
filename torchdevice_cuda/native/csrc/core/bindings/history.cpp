// Python bindings for the memory history, and for snapshots, which contain it, as in torch.cuda.memory.
//
// Stacks are torch's own (CapturedTraceback): cheap to take, and symbolized on request. The last owner may release one
// anywhere, also under a lock, without waiting for the GIL.
#include <ATen/record_function.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bindings/module.h"
#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

using Traceback = torch::CapturedTraceback;

template <bool kWithCpp>
Context capture_stack() {
  if (!Py_IsInitialized()) return nullptr;
  return std::static_pointer_cast<void>(Traceback::gather(true, true, kWithCpp));
}

// A path prefix: frames of files under it are not shown, because they are not the program's. The GIL protects it.
std::string& hidden_path() {
  static auto* path = new std::string;
  return *path;
}

Traceback* traceback(const Context& context) {
  return static_cast<Traceback*>(context.get());
}

// Collects stacks to symbolize, and the dicts that receive them. Symbolizing is slow and many events share a stack, so
// each stack is symbolized once.
class Stacks {
 public:
  void add(py::dict to, const Context& context, bool always = true) {
    if (context) {
      stacks_.push_back(traceback(context));
      kept_.push_back(context);
      to_.push_back(std::move(to));
    } else if (always) {
      to["frames"] = py::list();
    }
  }
  void read() {
    auto unique = stacks_;
    std::sort(unique.begin(), unique.end());
    unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
    const auto read = torch::symbolize(unique);
    std::vector<py::dict> frames;
    for (const auto& f : read.all_frames) {
      py::dict d;
      d["filename"] = f.filename;
      d["name"] = f.funcname;
      d["line"] = f.lineno;
      frames.push_back(std::move(d));
    }
    for (size_t i = 0; i < stacks_.size(); i++) {
      const auto at = std::lower_bound(unique.begin(), unique.end(), stacks_[i]) - unique.begin();
      py::list list;
      for (const auto f : read.tracebacks.at(static_cast<size_t>(at)))
        if (hidden_path().empty() ||
            read.all_frames.at(f).filename.compare(0, hidden_path().size(), hidden_path()) != 0)
          list.append(frames.at(f));
      to_[i]["frames"] = list;
      if (const auto* forward = forward_stack(*stacks_[i])) to_[i]["forward_frames"] = py::cast(*forward);
    }
  }

 private:
  std::vector<Traceback*> stacks_;
  std::vector<Context> kept_;
  std::vector<py::dict> to_;
};

// ---- annotations of the program -------------------------------------------------------------------------------------

constexpr char kCompiled[] = "Torch-Compiled Region";

bool is_compiled(const at::RecordFunction& f) {
  return std::string(f.name()).compare(0, sizeof kCompiled - 1, kCompiled) == 0;
}

// Callbacks for torch.profiler.record_function while a history is recorded, and for compiled functions on request.
struct Callbacks {
  std::mutex mutex;
  at::CallbackHandle annotations = 0, compiled = 0;

  void set(bool on, bool with_compiled, bool every_thread) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!on) {
      for (auto* handle : {&annotations, &compiled}) {
        if (*handle) at::removeCallback(*handle);
        *handle = 0;
      }
      return;
    }
    if (!annotations) {
      auto callback =
          at::RecordFunctionCallback(
              [](const at::RecordFunction& f) -> std::unique_ptr<at::ObserverContext> {
                annotate(f.name(), "START", t_current_device);
                return nullptr;
              },
              [](const at::RecordFunction& f, at::ObserverContext*) { annotate(f.name(), "END", t_current_device); })
              .scopes({at::RecordScope::USER_SCOPE});
      annotations = every_thread ? at::addGlobalCallback(callback) : at::addThreadLocalCallback(callback);
    }
    if (with_compiled && !compiled) {
      compiled = at::addGlobalCallback(
          at::RecordFunctionCallback(
              [](const at::RecordFunction& f) -> std::unique_ptr<at::ObserverContext> {
                if (is_compiled(f)) t_compiled.emplace_back(f.name());
                return nullptr;
              },
              [](const at::RecordFunction& f, at::ObserverContext*) {
                if (is_compiled(f) && !t_compiled.empty()) t_compiled.pop_back();
              })
              .scopes({at::RecordScope::FUNCTION}));
    }
  }
};
Callbacks& callbacks() {
  static auto* c = new Callbacks;
  return *c;
}

uint32_t parse_actions(const std::vector<std::string>& names) {
  uint32_t found = 0;
  for (const auto& name : names) {
    const auto* const at = std::find(std::begin(kActions), std::end(kActions), name);
    TORCH_CHECK(at != std::end(kActions), "Unknown TraceEntry action: ", name);
    found |= uint32_t{1} << (at - std::begin(kActions));
  }
  return found;
}

void record(
    bool enabled, size_t max_entries, int stacks, bool with_cpp, bool clear, const std::vector<std::string>& skipped,
    bool with_compiled, bool every_thread) {
  const auto skip = parse_actions(skipped);
  const auto source = with_cpp ? &capture_stack<true> : &capture_stack<false>;
  callbacks().set(enabled, with_compiled, every_thread);
  without_gil([&] {
    record_history(
        enabled, max_entries, enabled ? source : nullptr,
        enabled ? static_cast<StackRecording>(stacks) : StackRecording::Never, clear, skip);
  });
}

// ---- snapshots ------------------------------------------------------------------------------------------------------

py::tuple pool_tuple(const PoolId& id) {
  return py::make_tuple(id.first, id.second);
}

py::list list_segments(Index index, PoolId pool, Stacks& stacks) {
  py::list all;
  for (const auto& s : without_gil([&] { return segments(index, pool); })) {
    py::dict d;
    d["device"] = static_cast<int>(index);
    d["address"] = s.address;
    d["total_size"] = s.total;
    d["allocated_size"] = s.allocated;
    d["active_size"] = s.active;
    d["requested_size"] = s.requested;
    d["stream"] = stream_handle(index, s.stream);
    d["segment_type"] = s.large ? "large" : "small";
    d["segment_pool_id"] = pool_tuple(s.pool);
    d["is_expandable"] = s.expandable;
    stacks.add(d, s.context);
    py::list blocks;
    for (const auto& b : s.blocks) {
      py::dict e;
      e["address"] = b.address;
      e["size"] = b.size;
      e["requested_size"] = b.requested;
      e["state"] = b.state;
      stacks.add(e, b.context);
      blocks.append(e);
    }
    d["blocks"] = blocks;
    all.append(d);
  }
  return all;
}

py::list list_trace(Index index, Stacks& stacks) {
  py::list all;
  for (const auto& t : without_gil([&] { return trace(index); })) {
    py::dict d;
    d["action"] = kActions[static_cast<size_t>(t.action)];
    d[t.action == Action::Oom ? "device_free" : "addr"] = t.address;
    d["size"] = t.size;
    d["stream"] = stream_handle(index, t.stream);
    d["time_us"] = t.time_us;
    d["compile_context"] = t.compiled;
    d["user_metadata"] = t.metadata;
    d["pool_id"] = pool_tuple(t.pool);
    stacks.add(d, t.context, false);
    all.append(d);
  }
  return all;
}

py::dict snapshot(uint64_t a, uint64_t b, bool with_traces) {
  Stacks stacks;
  py::list all, traces, named;
  for (int i = 0; i < device_count(); i++) {
    const auto index = static_cast<Index>(i);
    // Read the history first: the next snapshot reports that this one was taken.
    traces.append(with_traces ? list_trace(index, stacks) : py::list());
    for (const auto segment : list_segments(index, {a, b}, stacks)) all.append(segment);
  }
  for (const auto& one : annotations()) {
    py::dict d;
    d["name"] = one.name;
    d["stage"] = one.stage;
    d["device"] = one.device;
    d["time_us"] = one.time_us;
    named.append(d);
  }
  stacks.read();
  py::dict out;
  out["segments"] = all;
  out["device_traces"] = traces;
  out["external_annotations"] = named;
  return out;
}

py::object frames_at(uintptr_t address) {
  const auto context = without_gil([&] { return context_of_address(reinterpret_cast<void*>(address)); });
  if (!context) return py::none();
  Stacks stacks;
  py::dict d;
  stacks.add(d, context);
  stacks.read();
  return d["frames"];
}

}  // namespace

void bind_history(py::module_& m) {
  m.def("snapshot", &snapshot, py::arg("pool_a") = 0, py::arg("pool_b") = 0, py::arg("with_traces") = true);
  m.def(
      "record_history", &record, py::arg("enabled"), py::arg("max_entries") = 1,
      py::arg("keeping") = static_cast<int>(StackRecording::All), py::arg("with_cpp") = false, py::arg("clear") = false,
      py::arg("skipped") = std::vector<std::string>(), py::arg("with_compiled") = false,
      py::arg("every_thread") = false);
  m.def("history_enabled", [] { return history_enabled(); });
  m.def("frames_at", &frames_at);
  m.def("hide_frames", [](std::string path) { hidden_path() = std::move(path); });
  m.def("set_metadata", [](std::string text) { t_metadata = std::move(text); });
  m.def("get_metadata", [] { return t_metadata; });
}

}  // namespace hostdevice
