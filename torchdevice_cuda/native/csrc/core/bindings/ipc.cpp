// Python bindings for storages sent between processes: the values are those of torch.UntypedStorage._share_cuda_.
#include "runtime/ipc.h"

#include <torch/csrc/Storage.h>

#include <algorithm>
#include <limits>

#include "bindings/module.h"

namespace hostdevice {
namespace {

py::tuple send(uintptr_t storage) {
  const SharedStorage sent = [&] {
    const py::gil_scoped_release release;
    return send_storage(reinterpret_cast<c10::StorageImpl*>(storage));
  }();
  const auto bytes = [](const std::string& text) -> py::object {
    if (text.empty()) return py::none();
    return py::bytes(text);
  };
  py::object waits = py::none();
  if (!sent.event.empty()) waits = py::bool_(true);
  return py::make_tuple(
      static_cast<int>(sent.device), bytes(sent.handle), sent.bytes, sent.offset, bytes(sent.counter),
      sent.counter_offset, bytes(sent.event), waits);
}

// Return a storage, or CUDA's error code. A negative number becomes one that is too large, which is refused.
py::object receive(
    int64_t device, const std::string& handle, int64_t size, int64_t offset, const std::string& counter,
    int64_t counter_offset, const std::string& event, bool waits) {
  auto storage = [&] {
    const py::gil_scoped_release release;
    const auto index = static_cast<Index>(std::clamp<int64_t>(device, -1, std::numeric_limits<Index>::max()));
    return receive_storage(
        {index, handle, static_cast<size_t>(size), static_cast<size_t>(offset), counter,
         static_cast<uint64_t>(counter_offset), event},
        waits);
  }();
  if (const auto* refusal = std::get_if<Refusal>(&storage)) return py::int_(static_cast<int>(*refusal));
  return py::reinterpret_steal<py::object>(THPStorage_Wrap(std::get<c10::Storage>(std::move(storage))));
}

}  // namespace

void bind_ipc(py::module_& m) {
  const auto nogil = py::call_guard<py::gil_scoped_release>();
  m.def("send_storage", &send, py::arg("storage"));
  m.def("receive_storage", &receive);
  m.def(
      "release_counter",
      [](const std::string& counter, int64_t offset) { release_counter(counter, static_cast<uint64_t>(offset)); },
      nogil);
  m.def("collect_sent", &collect_sent, nogil);
}

}  // namespace hostdevice
