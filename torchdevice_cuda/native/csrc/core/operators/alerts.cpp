#include "operators/alerts.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

#include "compat.h"
#include "operators/facts.h"
#include "operators/registration.h"
#include "operators/rules.h"
#include "runtime/captures.h"
#include "runtime/device.h"
#include "runtime/failure.h"
#include "runtime/gpu_trace.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

using torch::jit::Stack;

// max_unpool is missing: the CPU's kernels say it themselves.
constexpr Nondeterministic kNondeterministic[] = {
#include "contract/nondeterministic.inc"
};
// Besides what PyTorch itself says of an operator: that its result, or its result's shape, depends on elements.
constexpr Waiting kWaiting[] = {
#include "contract/waits.inc"
};
constexpr const char* kNeverWaiting[] = {
#include "contract/never_waits.inc"
};
constexpr Waiting kAlways = {"*"}, kForIndices = {"*", &rules::waits_for_indices};

// As rows have it: without the underscore of the in-place form, with the overload.
std::string row_name(const c10::OperatorHandle& op) {
  std::string name = aten_name(op.schema().name(), "");
  if (!name.empty() && name.back() == '_') name.pop_back();
  const auto& overload = op.schema().overload_name();
  return name.empty() || overload.empty() ? name : name + "." + overload;
}

bool is_named(const char* row, const std::string& name) {
  return name == row || name.substr(0, name.find('.')) == row;
}

template <class Row, size_t kRows>
const Row* find_in(const Row (&rows)[kRows], const std::string& name) {
  for (const auto& row : rows)
    if (is_named(row.name, name)) return &row;
  return nullptr;
}

}  // namespace

const Nondeterministic* find_nondeterministic(const c10::OperatorHandle& op) {
  const std::string name = row_name(op);
  return kIsCuda && !name.empty() ? find_in(kNondeterministic, name) : nullptr;
}

const Waiting* find_waiting(const c10::OperatorHandle& op) {
  const std::string name = row_name(op);
  if (!kIsCuda || name.empty()) return nullptr;
  for (const char* never : kNeverWaiting)
    if (is_named(never, name)) return nullptr;
  if (is_indexing(op.schema().name())) return &kForIndices;
  if (const auto* found = find_in(kWaiting, name)) return found;
  const bool told = op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape);
  return told ? &kAlways : nullptr;
}

bool waits(const Facts& f, const Stack& stack, size_t base) {
  return f.reads_back || (f.waiting && (!f.waiting->holds || f.waiting->holds(stack, base)));
}

void tell(const Facts& f, const Stack& stack, size_t base, c10::DeviceIndex index) {
  const auto holds = [&](const auto* row) { return !row->holds || row->holds(stack, base); };
  if (f.nondeterministic && at::globalContext().deterministicAlgorithms() && holds(f.nondeterministic))
    at::globalContext().alertNotDeterministic(f.nondeterministic->caller);
  if (f.waiting &&
      (watches_synchronization() || was_ever_busy() || listener() || captures_underway() || g_failed.load()) &&
      holds(f.waiting)) {
    synchronizing();
    synchronize_current_stream(index);
  }
}

}  // namespace hostdevice
