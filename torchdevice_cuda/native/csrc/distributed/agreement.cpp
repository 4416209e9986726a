// Registry of the memory that groups of ranks share.
#include "distributed/agreement.h"

#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <mutex>
#include <unordered_map>
#include <utility>

namespace hostdevice {
namespace {

struct Agreements {
  std::mutex lock;
  std::unordered_map<const void*, std::shared_ptr<const Agreement>> of;
};

Agreements& agreements() {
  static auto* a = new Agreements;
  return *a;
}

// Register a group's memory and return its backend's address, which removes it later.
uintptr_t watch_group(
    const c10::intrusive_ptr<c10d::Backend>& backend, const py::object& memory, uintptr_t address, int64_t rank,
    int64_t size, int64_t head, int64_t stride, int64_t ring, int64_t text, int64_t text_words) {
  auto made = std::make_shared<const Agreement>(Agreement{
      reinterpret_cast<std::atomic<uint64_t>*>(address), rank, size, head, stride, ring, text, text_words,
      hold(memory)});
  const py::gil_scoped_release nogil;
  auto& a = agreements();
  const std::lock_guard<std::mutex> lock(a.lock);
  a.of[backend.get()] = std::move(made);
  return reinterpret_cast<uintptr_t>(backend.get());
}

void forget_group(uintptr_t backend) {
  const py::gil_scoped_release nogil;
  std::shared_ptr<const Agreement> last;
  auto& a = agreements();
  const std::lock_guard<std::mutex> lock(a.lock);
  const auto found = a.of.find(reinterpret_cast<const void*>(backend));
  if (found == a.of.end()) return;
  last = std::move(found->second);
  a.of.erase(found);
}

}  // namespace

std::shared_ptr<const Agreement> agreement_of(const void* backend) {
  auto& a = agreements();
  const std::lock_guard<std::mutex> lock(a.lock);
  const auto found = a.of.find(backend);
  return found == a.of.end() ? nullptr : found->second;
}

void bind_agreement(py::module_& m) {
  m.def(
      "watch_group", &watch_group, py::arg("backend"), py::arg("memory"), py::arg("address"), py::arg("rank"),
      py::arg("size"), py::arg("head"), py::arg("stride"), py::arg("ring"), py::arg("text"), py::arg("text_words"));
  m.def("forget_group", &forget_group, py::arg("backend"));
}

}  // namespace hostdevice
