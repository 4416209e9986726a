#include "distributed/observed_work.h"

#include <c10/util/ScopeExit.h>

#include <algorithm>

#include "operators/alias.h"
#include "runtime/observer.h"

namespace hostdevice {
namespace {

const StreamState& current(c10::DeviceIndex device) {
  return stream_state(device, current_stream(device));
}

void add_accesses(std::vector<ObservedAccess>& all, const std::vector<at::Tensor>& tensors, bool writes) {
  for (const auto& t : tensors)
    if (is_device_tensor(t) && t.is_non_overlapping_and_dense() && t.numel() != 0)
      all.push_back({t.const_data_ptr(), t.nbytes(), t.scalar_type(), t.sizes(), writes});
}

}  // namespace

c10::intrusive_ptr<c10::ivalue::Future> make_future(const std::vector<at::Tensor>& outputs) {
  std::vector<c10::Device> devices;
  for (const auto& t : outputs)
    if (!t.device().is_cpu() && std::find(devices.begin(), devices.end(), t.device()) == devices.end())
      devices.push_back(t.device());
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), devices);
}

StreamState& collective_stream(c10::DeviceIndex device, int64_t number) {
  return stream_state(device, -2 * (number + 1));
}

ObservedWork::ObservedWork(
    StreamState& stream, const std::vector<at::Tensor>& written, const std::vector<at::Tensor>& read,
    const std::function<void()>& issue)
    : device_(stream.device), stream_(stream.id) {
  std::vector<ObservedAccess> accesses;
  add_accesses(accesses, read, false);
  add_accesses(accesses, written, true);
  const EventState begun;
  observe([&](StreamObserver& o) {
    o.record_event(begun, current(device_));
    o.wait_for_event(stream, begun);
    o.destroy_event(begun);
    o.run_work(stream, "a collective", accesses);
  });
  if (issue) issue();
  done_.device = device_;
  observe([&](StreamObserver& o) { o.record_event(done_, stream); });
}

ObservedWork::~ObservedWork() {
  observe([&](StreamObserver& o) { o.destroy_event(done_); });
}

void ObservedWork::block_current_stream() const {
  observe([&](StreamObserver& o) { o.wait_for_event(current(device_), done_); });
}

void ObservedWork::note_completion() const {
  observe([&](StreamObserver& o) { o.end_query(done_, true); });
}

void ObservedWork::synchronize() const {
  observe([&](StreamObserver& o) { o.synchronize(done_); });
}

void ObservedWork::complete(c10::ivalue::Future& future, const std::vector<at::Tensor>& outputs) const {
  const auto restore = c10::make_scope_exit(
      [device = device_, current = exchange_stream(device_, stream_)] { exchange_stream(device, current); });
  future.markCompleted(outputs);
}

}  // namespace hostdevice
