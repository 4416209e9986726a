#include "distributed/observed_work.h"

#include <array>

#include "operators/alias.h"
#include "runtime/observer.h"

namespace hostdevice {
namespace {

StreamState& collective_stream(c10::DeviceIndex device) {
  static auto* all = [] {
    auto* made = new std::array<StreamState, kMaxDevices>;  // leaked: works outlive static destruction
    for (size_t i = 0; i < made->size(); i++) {
      (*made)[i].id = kCollectiveStream;
      (*made)[i].device = static_cast<c10::DeviceIndex>(i);
    }
    return made;
  }();
  return all->at(static_cast<size_t>(device));
}

const StreamState& current(c10::DeviceIndex device) {
  return stream_state(device, current_stream(device));
}

}  // namespace

ObservedWork::ObservedWork(const std::vector<at::Tensor>& written) {
  if (!is_observed()) return;
  std::vector<ObservedAccess> accesses;
  for (const auto& t : written) {
    if (!is_device_tensor(t) || !t.is_non_overlapping_and_dense() || t.numel() == 0) continue;
    device_ = t.device().index();
    accesses.push_back({t.const_data_ptr(), t.nbytes(), t.scalar_type(), t.sizes(), true});
  }
  if (device_ < 0) return;
  const auto& stream = collective_stream(device_);
  const EventState begun;
  observe([&](StreamObserver& o) {
    o.record_event(begun, current(device_));
    o.wait_for_event(stream, begun);
    o.destroy_event(begun);
    o.run_work(stream, "a collective", accesses);
    o.record_event(done_, stream);
  });
}

ObservedWork::~ObservedWork() {
  if (device_ >= 0) observe([&](StreamObserver& o) { o.destroy_event(done_); });
}

void ObservedWork::block_current_stream() const {
  if (device_ >= 0) observe([&](StreamObserver& o) { o.wait_for_event(current(device_), done_); });
}

void ObservedWork::note_completion() const {
  if (device_ >= 0) observe([&](StreamObserver& o) { o.end_query(done_, true); });
}

}  // namespace hostdevice
