#include "races/calls.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "operators/alias.h"
#include "operators/boxed.h"
#include "operators/operator_info.h"
#include "operators/recorded.h"
#include "operators/tensors.h"
#include "races/detector.h"
#include "races/pages.h"
#include "runtime/pinned.h"

namespace hostdevice {
namespace {

using c10::IValue;
using torch::jit::Stack;
using Arguments = c10::ArrayRef<IValue>;

// The function that was replaced (recorded.h).
Record g_next = nullptr;

// What a call of an operator accesses, beyond the schema.
struct CallInfo {
  const OperatorInfo* f;
  const std::string* name;
  bool is_copy;           // copy_(self, src, non_blocking)
  bool reads_shape_only;  // of its arguments, as empty_like() does
};

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

const CallInfo& find_call(const c10::OperatorHandle& op) {
  static std::shared_mutex mutex;
  static auto* all = new std::unordered_map<const void*, CallInfo>;
  const void* key = &op.schema();
  {
    const std::shared_lock<std::shared_mutex> lock(mutex);
    const auto found = all->find(key);
    if (found != all->end()) return found->second;
  }
  const std::string& name = op.schema().name();
  const CallInfo info{&get_operator_info(op), intern_name(name), name == "aten::copy_", ends_with(name, "_like")};
  const std::unique_lock<std::shared_mutex> lock(mutex);
  return all->emplace(key, info).first->second;
}

const StreamState& current_state(c10::DeviceIndex index) {
  return stream_state(index, current_stream(index));
}

// ---- copies --------------------------------------------------------------------------------------------------------

// Whether CUDA copies through temporary memory: a conversion, or elements in another order.
bool needs_temporary(const at::Tensor& self, const at::Tensor& src) {
  return self.scalar_type() != src.scalar_type() || self.sizes() != src.sizes() || self.strides() != src.strides() ||
      !self.is_non_overlapping_and_dense();
}

void copy_between_devices(const Caller& caller, const at::Tensor& self, const at::Tensor& src) {
  auto& detector = Detector::get();
  // CUDA copies on the source's stream; both devices' streams wait for each other.
  const auto &from = current_state(src.device().index()), &to = current_state(self.device().index());
  detector.order(from, to);
  detector.begin_work(from, caller, {access_of(src, false), access_of(self, true)});
  detector.order(to, from);
}

// A blocking copy synchronizes by itself, when it runs. Return the access of the host's memory that is still in flight
// when the call returns.
std::optional<NewAccess> copy_with_host(
    const Caller& caller, const at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  auto& detector = Detector::get();
  const bool to_host = !is_device_tensor(self);
  const at::Tensor &host = to_host ? self : src, &own = to_host ? src : self;
  const auto& stream = current_state(own.device().index());
  if (!needs_temporary(self, src) && is_pinned(host.storage().data())) {
    NewAccess on_host = access_of(host, to_host);
    detector.begin_work(stream, caller, {access_of(own, !to_host), on_host});
    unprotect_pages(on_host.layout.begin(), on_host.layout.end());
    return non_blocking ? std::make_optional(std::move(on_host)) : std::nullopt;
  }
  if (!to_host) detector.access_on_host(caller, {access_of(host, false)});
  detector.begin_work(stream, caller, {access_of(own, !to_host)});
  // The host waits for a copy to memory that is not pinned.
  if (to_host) {
    detector.synchronize(stream);
    detector.access_on_host(caller, {access_of(host, true)});
  }
  return std::nullopt;
}

std::optional<NewAccess> check_copy(const Caller& caller, Arguments arguments) {
  const at::Tensor &self = arguments[0].toTensor(), &src = arguments[1].toTensor();
  if (self.numel() == 0) return std::nullopt;
  const bool to_host = !is_device_tensor(self), from_host = !is_device_tensor(src);
  if (to_host || from_host) return copy_with_host(caller, self, src, arguments[2].toBool());
  if (self.device() != src.device())
    copy_between_devices(caller, self, src);
  else
    Detector::get().begin_work(
        current_state(self.device().index()), caller, {access_of(src, false), access_of(self, true)});
  return std::nullopt;
}

// ---- other operators -----------------------------------------------------------------------------------------------

// The accesses of a call to its arguments, and the memory that they are in.
struct ArgumentAccesses {
  std::vector<NewAccess> on_device, on_host;
  std::vector<const void*> storages;
};

ArgumentAccesses list_arguments(const CallInfo& call, Arguments arguments) {
  ArgumentAccesses out;
  for (const auto i : call.f->interesting) {
    const auto& argument = call.f->args[i];
    each_tensor(arguments[i], argument.kind, [&](const at::Tensor& t) {
      if (!t.has_storage()) return;
      const bool own = is_device_tensor(t);
      if (own) out.storages.push_back(t.storage().data());
      if (call.reads_shape_only && !argument.changed) return;
      (own ? out.on_device : out.on_host).push_back(access_of(t, argument.changed));
    });
  }
  return out;
}

std::vector<NewAccess> list_results(const ArgumentAccesses& given, Arguments results) {
  std::vector<NewAccess> out;
  for (const auto& v : results)
    each_result(v, [&](const at::Tensor& t) {
      if (!is_device_tensor(t) || !t.has_storage()) return;
      const auto found = std::find(given.storages.begin(), given.storages.end(), t.storage().data());
      if (found == given.storages.end()) out.push_back(access_of(t, true));
    });
  return out;
}

void check_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const CallInfo& call = find_call(op);
  const OperatorInfo& f = *call.f;
  const Arguments arguments = torch::jit::last(*stack, f.args.size());
  if (!f.launches) {
    g_next(op, keys, stack);
    return;
  }
  const auto& stream = current_state(device_of_call(f, arguments));
  const Caller caller = find_caller(call.name);
  note_forward(caller.site);
  auto& detector = Detector::get();
  const bool is_captured = stream.capture.load() != 0;
  if (call.is_copy && !is_captured) {
    const auto in_flight = check_copy(caller, arguments);
    g_next(op, keys, stack);
    if (in_flight) protect_pages(in_flight->layout, in_flight->writes);
    return;
  }
  ArgumentAccesses given = list_arguments(call, arguments);
  const size_t below = stack->size() - f.args.size();
  if (is_captured) {
    // A graph accesses pinned memory when it runs; elements of other memory are passed by value.
    std::copy_if(
        given.on_host.begin(), given.on_host.end(), std::back_inserter(given.on_device),
        [](const NewAccess& access) { return is_pinned(reinterpret_cast<const void*>(access.layout.begin())); });
    const Epoch epoch = detector.begin_captured_work(stream, caller, given.on_device);
    g_next(op, keys, stack);
    const auto results = list_results(given, Arguments(*stack).slice(below));
    if (!results.empty()) detector.continue_captured_work(stream, epoch, caller, results);
    return;
  }
  for (const auto& access : given.on_host)
    if (detector.may_be_in_flight(access.layout)) detector.access_on_host(caller, {access});
  const Epoch epoch = detector.begin_work(stream, caller, given.on_device);
  g_next(op, keys, stack);
  const auto results = list_results(given, Arguments(*stack).slice(below));
  if (!results.empty()) detector.continue_work(epoch, caller, results);
}

}  // namespace

void intercept_calls() {
  g_next = std::exchange(g_record, &check_call);
  g_interceptors.fetch_add(1);
}

}  // namespace hostdevice
