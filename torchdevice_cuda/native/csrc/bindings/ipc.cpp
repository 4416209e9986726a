// Storages between processes, for Python: the values are those of torch.UntypedStorage._share_cuda_.
#include "runtime/ipc.h"

#include <torch/csrc/Storage.h>

#include "bindings/module.h"

namespace hostdevice {
namespace {

py::tuple send(uintptr_t storage) {
  const Sending sent = [&] {
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

// Or CUDA's code for why there is none.
py::object receive(
    int device, const std::string& handle, size_t size, size_t offset, const std::string& counter,
    uint64_t counter_offset, const std::string& event, bool waits) {
  auto storage = [&] {
    const py::gil_scoped_release release;
    return receive_storage({static_cast<Index>(device), handle, size, offset, counter, counter_offset, event}, waits);
  }();
  if (const auto* refusal = std::get_if<Refusal>(&storage)) return py::int_(static_cast<int>(*refusal));
  return py::reinterpret_steal<py::object>(THPStorage_Wrap(std::get<c10::Storage>(std::move(storage))));
}

}  // namespace

void bind_ipc(py::module_& m) {
  const auto nogil = py::call_guard<py::gil_scoped_release>();
  m.def("send_storage", &send, py::arg("storage"));
  m.def("receive_storage", &receive);
  m.def("release_counter", &release_counter, nogil);
  m.def("collect_sent", &collect_sent, nogil);
}

}  // namespace hostdevice
