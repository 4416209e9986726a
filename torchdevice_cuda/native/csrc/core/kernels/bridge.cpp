// The two halves of the boxed kernel, for Python code that runs a whole CPU function on device tensors (compiled
// graphs).
#include <ATen/core/Tensor.h>
#include <torch/library.h>

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

// Return CPU tensors over the same memory. `keep`: they keep it alive.
std::vector<Tensor> to_cpu(at::TensorList tensors, bool keep) {
  if (is_observed() && !t_in_node) {
    const auto& stream = stream_state(t_current_device, current_stream(t_current_device));
    observe([&](StreamObserver& o) { o.begin_other_work(stream); });
  }
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
