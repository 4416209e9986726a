// Differences between CUDA's and the CPU's convolutions and batch normalizations.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "operators/boxed.h"
#include "operators/composites.h"

namespace hostdevice {
namespace {

using at::Tensor;

// The memory format of the CPU kernels' results depends on type and size. cuDNN's results are channels-last if an
// argument is, in three dimensions too, and never in float64.
void convolve_in_cudnn_layout(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const size_t base = stack->size() - op.schema().arguments().size();
  const Tensor input = (*stack)[base].toTensor(), weight = (*stack)[base + 1].toTensor();
  run_on_cpu(op, c10::DispatchKey::CPU, stack);
  const Tensor& made = stack->back().toTensor();
  constexpr auto kTogether = at::MemoryFormat::ChannelsLast3d;
  if (made.scalar_type() == at::kDouble)
    stack->back() = made.contiguous();
  else if (
      made.dim() == 5 && (input.suggest_memory_format() == kTogether || weight.suggest_memory_format() == kTogether))
    stack->back() = made.contiguous(kTogether);
}

// Refuse oneDNN's convolution, called by name with GPU tensors.
void refuse_onednn(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack*) {
  TORCH_CHECK(false, "itensor_view_from_dense expects CPU tensor input");
}

Tensor widen(const Tensor& t) {
  return t.scalar_type() == at::kHalf || t.scalar_type() == at::kBFloat16 ? t.to(at::kFloat) : t;
}

// CUDA returns the statistics that it used, even if they were passed in; the CPU then returns none.
void normalize_with_statistics(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const size_t base = stack->size() - op.schema().arguments().size();
  const auto mean = (*stack)[base + 3], var = (*stack)[base + 4];
  const bool training = (*stack)[base + 5].toBool();
  const double eps = (*stack)[base + 7].toDouble();
  run_on_cpu(op, c10::DispatchKey::CPU, stack);
  if (training || !mean.isTensor() || !var.isTensor() || (*stack)[base + 1].toTensor().numel()) return;
  (*stack)[base + 1] = widen(mean.toTensor()).clone();
  (*stack)[base + 2] = (widen(var.toTensor()) + eps).rsqrt_();
}

}  // namespace

void register_convolutions(Registrar& registrar) {
  registrar.impl("convolution", &convolve_in_cudnn_layout);
  registrar.impl("mkldnn_convolution", &refuse_onednn);
  for (const char* name : {"native_batch_norm", "_native_batch_norm_legit"})
    registrar.impl(name, &normalize_with_statistics);
}

}  // namespace hostdevice
