// Operators of the host that read or write pinned memory.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include <mutex>
#include <unordered_map>
#include <vector>

#include "operators/boxed.h"
#include "operators/operator_info.h"
#include "races/calls.h"
#include "races/detector.h"
#include "runtime/captures.h"

namespace hostdevice {
namespace {

// Return an operator's metadata; null if it computes nothing itself: views, and composites of other operators.
const OperatorInfo* find_computing(const c10::OperatorName& name) {
  const auto op = c10::Dispatcher::singleton().findOp(name);
  if (!op.has_value() || !op->hasSchema()) return nullptr;
  const OperatorInfo& f = get_operator_info(*op);
  // Composites call other operators, except for some that write: copy_().
  const bool computes = op->hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
      (f.writes && op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd));
  return f.launches && computes ? &f : nullptr;
}

const OperatorInfo* find_cached(const c10::OperatorName& name) {
  static std::mutex mutex;
  static auto* all = new std::unordered_map<c10::OperatorName, const OperatorInfo*>;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto [found, is_new] = all->try_emplace(name, nullptr);
  if (is_new) found->second = find_computing(name);
  return found->second;
}

std::unique_ptr<at::ObserverContext> check_host(const at::RecordFunction& function) {
  auto& detector = Detector::get();
  if (t_in_node || !detector.has_pinned_accesses()) return nullptr;
  const auto name = function.operator_name();
  if (!name.has_value()) return nullptr;
  const OperatorInfo* f = find_cached(*name);
  const auto inputs = function.inputs();
  if (!f || inputs.size() != f->args.size()) return nullptr;
  bool any_on_device = false;
  std::vector<NewAccess> accesses;
  for (const auto i : f->interesting)
    each_tensor(inputs[i], f->args[i].kind, [&](const at::Tensor& t) {
      if (!t.device().is_cpu())
        any_on_device = true;
      else if (t.has_storage())
        accesses.push_back(access_of(t, f->args[i].changed));
    });
  // The device's own calls are intercepted.
  if (any_on_device) return nullptr;
  for (const auto& access : accesses)
    if (detector.may_be_in_flight(access.layout))
      detector.access_on_host(find_caller(intern_name(name->name)), {access}, /*can_raise=*/false);
  return nullptr;
}

}  // namespace

void observe_host_operators() {
  at::addGlobalCallback(at::RecordFunctionCallback(&check_host).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

}  // namespace hostdevice
