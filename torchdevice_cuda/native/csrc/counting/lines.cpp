// The lines of the program, by the ids that reports and findings name them by.
#include "counting/lines.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>

#include <mutex>
#include <unordered_map>
#include <utility>

#include "bindings/module.h"
#include "compat_frames.h"
#include "runtime/ledger.h"

namespace hostdevice {
namespace {

// A program that keeps creating code has ever new lines; beyond this number they are counted without a line.
constexpr size_t kMostCodes = 20'000;

// What is known of a code object, which is kept alive so that its address is not reused.
struct KnownCode {
  bool is_program;
  std::unordered_map<int, Site> lines;  // by bytecode offset
};
// Protected by site_mutex(), under which nothing else is locked and no Python runs.
struct Lines {
  std::unordered_map<PyCodeObject*, KnownCode> codes;
  std::unordered_map<std::string, Site> by_text;
  std::vector<SourceLine> all{{"", "", 0}, {"", "", 0}};  // kNoSite and kBackward
  std::vector<std::string> hidden;                        // path prefixes of files that are not the program's
};
Lines& lines() {
  static auto* known = new Lines;
  return *known;
}

std::string text_of(PyObject* text) {
  Py_ssize_t size = 0;
  const char* read = PyUnicode_AsUTF8AndSize(text, &size);
  if (read) return {read, static_cast<size_t>(size)};
  PyErr_Clear();  // a name of bytes that are not text
  const auto bytes = py::reinterpret_steal<py::bytes>(PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace"));
  return bytes ? std::string(bytes) : std::string("?");
}

// Add a location, which needs the GIL. `code` belongs to a frame of this thread.
void add_location(const FramePlace& place) {
  const py::gil_scoped_acquire gil;
  const py::error_scope kept;
  auto& known = lines();
  const std::string file = text_of(place.code->co_filename), function = text_of(place.code->co_name);
  const int number = PyCode_Addr2Line(place.code, place.byte);
  bool is_new = false;
  {
    const std::lock_guard<std::mutex> lock(site_mutex());
    auto [found, made] = known.codes.try_emplace(place.code);
    is_new = made;
    if (made) {
      found->second.is_program = true;
      for (const auto& start : known.hidden)
        if (file.compare(0, start.size(), start) == 0) found->second.is_program = false;
    }
    if (found->second.is_program) {
      const auto [site, first] =
          known.by_text.try_emplace(file + "\n" + std::to_string(number), static_cast<Site>(known.all.size()));
      if (first) known.all.push_back({file, function, number});
      found->second.lines[place.byte] = site->second;
    }
  }
  if (is_new) Py_INCREF(place.code);
}

// Return the innermost line of the program; kNoSite if there is none.
Site find_program_line() {
  if (!Py_IsInitialized()) return kNoSite;
  PyThreadState* thread = PyGILState_GetThisThreadState();
  if (!thread) return kNoSite;
  auto& known = lines();
  while (true) {
    Site site = kNoSite;
    FramePlace unknown{nullptr, 0};
    const auto look = [&](const FramePlace& place) {
      const std::lock_guard<std::mutex> lock(site_mutex());
      const auto code = known.codes.find(place.code);
      if (code == known.codes.end()) {
        if (known.codes.size() < kMostCodes) unknown = place;
        return true;
      }
      if (!code->second.is_program) return false;
      const auto line = code->second.lines.find(place.byte);
      if (line == code->second.lines.end())
        unknown = place;
      else
        site = line->second;
      return true;
    };
    walk_frames(thread, look);
    if (!unknown.code) return site;
    add_location(unknown);
  }
}

// Return the current line; in a backward pass, the line that called the operator whose gradient is computed.
Site find_python_site() {
  if (const auto node = torch::autograd::get_current_node()) {
    const Site forward = site_of_forward({node->thread_id(), node->sequence_nr() + 1});
    if (forward != kBackward) return forward;
    const Site here = find_program_line();
    return here == kNoSite ? kBackward : here;
  }
  return find_program_line();
}

// Sequence numbers begin at 0, and here 0 means none.
ForwardNode find_forward_node() {
  if (torch::autograd::get_current_node()) return {};
  return {at::RecordFunction::currentThreadId(), at::sequence_number::peek()};
}

bool is_in_backward() {
  return torch::autograd::get_current_node() != nullptr;
}

SourceLine describe_site(Site site) {
  const std::lock_guard<std::mutex> lock(site_mutex());
  return lines().all.at(site);
}

}  // namespace

void find_lines(std::vector<std::string> hidden) {
  {
    const std::lock_guard<std::mutex> lock(site_mutex());
    lines().hidden = std::move(hidden);
  }
  g_find_site = &find_python_site;
  g_find_forward_node = &find_forward_node;
  g_describe_site = &describe_site;
  g_is_in_backward = &is_in_backward;
}

std::vector<SourceLine> list_lines() {
  const std::lock_guard<std::mutex> lock(site_mutex());
  return lines().all;
}

}  // namespace hostdevice
