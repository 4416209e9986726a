#include "operators/alerts.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstring>
#include <string>

#include "operators/operator_info.h"
#include "operators/registration.h"
#include "operators/rules.h"
#include "runtime/captures.h"
#include "runtime/device.h"
#include "runtime/failure.h"
#include "runtime/gpu_trace.h"
#include "runtime/observer.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

using torch::jit::Stack;

constexpr Waiting kAlways, kForIndices = {nullptr, &rules::waits_for_indices};

bool is_among(const char* overloads, const c10::OperatorHandle& op) {
  return !overloads || std::strstr(overloads, (" " + op.schema().overload_name() + " ").c_str());
}

}  // namespace

const Nondeterministic* find_nondeterministic(const c10::OperatorHandle& op, const Row& row) {
  const auto& found = row.nondeterministic;
  return kIsCuda && found.caller && is_among(found.overloads, op) ? &found : nullptr;
}

// Besides rows, use PyTorch's tags of operators whose result, or its shape, depends on elements.
const Waiting* find_waiting(const c10::OperatorHandle& op, const Row& row) {
  if (!kIsCuda || row.is(kNeverWaits) || aten_name(op.schema().name(), "").empty()) return nullptr;
  if (row.is(kIndexes)) return &kForIndices;
  if (row.is(kWaits) && is_among(row.waits.overloads, op)) return &row.waits;
  const bool is_data_dependent = op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape);
  return is_data_dependent ? &kAlways : nullptr;
}

bool waits_for_stream(const OperatorInfo& f, const Stack& stack, size_t base) {
  return f.reads_back || (f.waiting && (!f.waiting->holds || f.waiting->holds(stack, base)));
}

void raise_alerts(const OperatorInfo& f, const Stack& stack, size_t base, c10::DeviceIndex index) {
  const auto holds = [&](const auto* row) { return !row->holds || row->holds(stack, base); };
  if (f.nondeterministic && at::globalContext().deterministicAlgorithms() && holds(f.nondeterministic))
    at::globalContext().alertNotDeterministic(f.nondeterministic->caller);
  const bool matters =
      is_sync_debug_on() || was_ever_busy() || get_gpu_trace() || has_captures() || is_observed() || g_failed.load();
  if (f.waiting && matters && holds(f.waiting)) {
    check_sync_debug();
    synchronize_current_stream(index);
  }
}

}  // namespace hostdevice
