// The two halves of the boxed kernel, for Python code that runs a whole CPU function on device tensors (compiled
// graphs).
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "operators/alias.h"
#include "operators/install.h"
#include "runtime/captures.h"
#include "runtime/device.h"
#include "runtime/observer.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

using at::Tensor;

const StreamState& get_current_stream() {
  return stream_state(t_current_device, current_stream(t_current_device));
}

// Report what a whole function reads, or the memory that it has written.
void report_accesses(at::TensorList tensors, bool are_written) {
  std::vector<ObservedAccess> accesses;
  for (const auto& t : tensors)
    if (is_device_tensor(t) && t.layout() == at::kStrided && t.is_non_overlapping_and_dense() && t.numel() != 0)
      accesses.push_back({t.const_data_ptr(), t.nbytes(), t.scalar_type(), t.sizes(), are_written});
  observe([&](StreamObserver& o) { o.run_work(get_current_stream(), kCodeOutsideOfOperators, accesses); });
}

// Return CPU tensors over the same memory. `keep`: they keep it alive.
std::vector<Tensor> to_cpu(at::TensorList tensors, bool keep) {
  if (is_observed() && !t_in_node) report_accesses(tensors, false);
  Aliases aliases(t_current_device, keep);
  std::vector<Tensor> out;
  out.reserve(tensors.size());
  for (const auto& t : tensors) out.push_back(aliases.to_cpu(t, false));
  return out;
}

// Return results as device tensors: an input where the result is its alias, a view of an input where they share memory.
std::vector<Tensor> to_device(
    const std::vector<Tensor>& results, at::TensorList inputs, at::TensorList cpu_inputs, int64_t index) {
  TORCH_CHECK(inputs.size() == cpu_inputs.size(), "every input needs its alias");
  check_index(static_cast<int>(index));
  Aliases aliases(static_cast<c10::DeviceIndex>(index));
  for (size_t i = 0; i < inputs.size(); i++) aliases.add_alias(inputs[i], cpu_inputs[i]);
  std::vector<Tensor> out;
  out.reserve(results.size());
  for (const auto& r : results) out.push_back(aliases.to_device(r));
  if (is_observed() && !t_in_node) {
    std::vector<Tensor> made;
    for (const auto& t : out) {
      const auto shares = [&](const Tensor& input) { return t.defined() && input.is_alias_of(t); };
      if (std::none_of(inputs.begin(), inputs.end(), shares)) made.push_back(t);
    }
    report_accesses(made, true);
  }
  return out;
}

// Return device tensors over the memory of CPU tensors, for program code that a CPU function calls.
std::vector<Tensor> lend(at::TensorList tensors, int64_t index) {
  check_index(static_cast<int>(index));
  DeviceAliases device_aliases(static_cast<c10::DeviceIndex>(index));
  std::vector<Tensor> out;
  out.reserve(tensors.size());
  for (const auto& t : tensors) out.push_back(device_aliases.tensor(t));
  return out;
}

}  // namespace

void register_bridge() {
  auto* m = new torch::Library(
      torch::Library::FRAGMENT, kIsCuda ? "hostdevice_cuda" : "hostdevice_mps", std::nullopt, __FILE__,
      static_cast<uint32_t>(__LINE__));
  m->def("to_cpu(Tensor[] tensors, bool keep=True) -> Tensor[]", TORCH_FN(to_cpu));
  m->def("lend(Tensor[] tensors, int index) -> Tensor[]", TORCH_FN(lend));
  m->def(
      "to_device(Tensor[] results, Tensor[] inputs, Tensor[] cpu_inputs, int index) -> Tensor[]", TORCH_FN(to_device));
}

}  // namespace hostdevice
