#include "operators/parts.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "operators/boxed.h"
#include "operators/registration.h"
#include "runtime/device.h"

namespace hostdevice {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using torch::jit::Stack;

// Holds the kernel of a loaded part. It is never freed, because calls may be running in it.
struct Slot {
  std::string part;
  std::atomic<const c10::BoxedKernel*> kernel{nullptr};
};

struct Slots {
  std::map<std::pair<DispatchKey, std::string>, Slot> of;
  std::function<void(const std::string&)> load;
};
// install() creates all slots in one thread; later only their kernels change.
Slots& slots() {
  static auto* all = new Slots;
  return *all;
}

struct StandInKernel final : c10::OperatorKernel {
  StandInKernel(DispatchKey key, Slot& slot) : key_(key), slot_(&slot) {}

  void operator()(const c10::OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
    const auto* kernel = slot_->kernel.load(std::memory_order_acquire);
    if (C10_UNLIKELY(!kernel)) {
      check_fork();
      slots().load(slot_->part);
      kernel = slot_->kernel.load(std::memory_order_acquire);
      // The operator's signature differs in this version of PyTorch, so the part has no kernel for it.
      if (!kernel) {
        run_without_own_kernel(op, key_, stack);
        return;
      }
    }
    kernel->callBoxed(op, keys, stack);
  }

 private:
  DispatchKey key_;
  Slot* slot_;
};

}  // namespace

void register_stand_ins(const std::vector<DeferredOperator>& operators, std::function<void(const std::string&)> load) {
  slots().load = std::move(load);
  for (const auto& deferred : operators) {
    if (!find_operator(deferred.name).has_value()) continue;
    const auto colons = deferred.name.find("::");
    const auto key = c10::parseDispatchKey(deferred.key);
    const std::string space = deferred.name.substr(0, colons), rest = deferred.name.substr(colons + 2);
    auto& slot = slots().of[{key, deferred.name}];
    slot.part = deferred.part;
    auto* library = new torch::Library(
        torch::Library::IMPL, space, std::make_optional(key), __FILE__, static_cast<uint32_t>(__LINE__));
    library->impl(rest.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<StandInKernel>(key, slot)));
    claim(key, space == "aten" ? rest : space + "/" + rest + "/" + c10::toString(key));
  }
}

bool set_kernel(DispatchKey key, const std::string& name, const c10::BoxedKernel& kernel) {
  const auto found = slots().of.find({key, name});
  if (found == slots().of.end()) return false;
  found->second.kernel.store(new c10::BoxedKernel(kernel), std::memory_order_release);
  return true;
}

std::vector<std::string> find_unfilled(const std::string& part) {
  std::vector<std::string> out;
  for (const auto& [at, slot] : slots().of)
    if (slot.part == part && !slot.kernel.load()) out.push_back(at.second + " at " + c10::toString(at.first));
  return out;
}

}  // namespace hostdevice
