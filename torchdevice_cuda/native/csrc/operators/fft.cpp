// Fourier transforms, which leave a plan in the cache.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <sstream>

#include "operators/alias.h"
#include "operators/boxed.h"
#include "operators/install.h"
#include "operators/registration.h"
#include "runtime/fft_plans.h"

namespace hostdevice {
namespace {

// A plan is the transform, the type, the shape, and the dimensions transformed.
void transform(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const size_t base = stack->size() - op.schema().arguments().size();
  const at::Tensor& self = (*stack)[base].toTensor();
  if (is_device_tensor(self)) {
    std::ostringstream plan;
    plan << op.schema().name() << self.scalar_type() << self.sizes() << self.strides() << (*stack)[base + 1];
    fft_plans(self.device().index()).use(plan.str());
  }
  run_on_cpu(op, c10::DispatchKey::CPU, stack);
}

}  // namespace

void register_fft() {
  if (!kIsCuda) return;
  Registrar registrar(kDense);
  for (const char* name : {"_fft_c2c", "_fft_r2c", "_fft_c2r"})
    registrar.impl(name, torch::CppFunction::makeFromBoxedFunction<&transform>());
}

}  // namespace hostdevice
