// Registers random operators: PyTorch's own functions, whose kernels are in its dispatch stubs for CUDA, and kernels of
// this library.
#include <ATen/core/Tensor.h>
#include <ATen/ops/bernoulli_native.h>
#include <ATen/ops/bernoulli_ops.h>
#include <ATen/ops/cauchy_native.h>
#include <ATen/ops/cauchy_ops.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/exponential_native.h>
#include <ATen/ops/exponential_ops.h>
#include <ATen/ops/geometric_native.h>
#include <ATen/ops/geometric_ops.h>
#include <ATen/ops/log_normal_native.h>
#include <ATen/ops/log_normal_ops.h>
#include <ATen/ops/multinomial_native.h>
#include <ATen/ops/normal_native.h>
#include <ATen/ops/normal_ops.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/random_native.h>
#include <ATen/ops/random_ops.h>
#include <ATen/ops/uniform_native.h>
#include <ATen/ops/uniform_ops.h>
#include <ATen/ops/zeros_like.h>

#include "operators/composites.h"
#include "operators/random.h"
#include "operators/random_launch.h"
#include "runtime/device.h"

namespace hostdevice {
namespace {

using at::Tensor;

// Calls a function of PyTorch after the check of CUDA's wrapper.
template <class Signature, Signature* kFunction>
struct CheckedCall;

template <class R, class... A, R (*kFunction)(A...)>
struct CheckedCall<R(A...), kFunction> {
  static R call(A... a) {
    check_fork();
    return kFunction(std::forward<A>(a)...);
  }
};

std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p, std::optional<bool> train) {
  const auto of_bools = input.options().dtype(at::kBool);
  if (input.numel() == 0) return {input, at::empty_like(input, of_bools)};
  if (train.has_value() && !*train) return {input.clone(), at::ones_like(input, of_bools)};
  if (p == 1) return {at::zeros_like(input), at::zeros_like(input, of_bools)};
  return drop(input, 1 - p, at::kBool, std::nullopt);
}

std::tuple<Tensor, Tensor> fused_dropout(const Tensor& self, double keep, OptGenerator generator) {
  return drop(self, keep, at::kByte, generator);
}

}  // namespace

void register_random(Registrar& registrar) {
  install_draws();
  install_samples();
  register_samples(registrar);
  registrar.impl("native_dropout", TORCH_FN(native_dropout));
  registrar.impl("_fused_dropout", TORCH_FN(fused_dropout));
  registrar.impl("_fill_mem_eff_dropout_mask_", TORCH_FN(fill_with_sequence));
#define HOSTDEVICE_CHECKED_AS(name, signature, function) \
  registrar.impl(name, TORCH_FN((&CheckedCall<signature, &at::native::function>::call)))
#define HOSTDEVICE_CHECKED(name, op, function) HOSTDEVICE_CHECKED_AS(name, at::_ops::op::schema, function)
  HOSTDEVICE_CHECKED("uniform_", uniform_, uniform_);
  HOSTDEVICE_CHECKED("normal_", normal_, normal_);
  HOSTDEVICE_CHECKED("log_normal_", log_normal_, log_normal_);
  HOSTDEVICE_CHECKED("exponential_", exponential_, exponential_);
  HOSTDEVICE_CHECKED("cauchy_", cauchy_, cauchy_);
  HOSTDEVICE_CHECKED("geometric_", geometric_, geometric_);
  HOSTDEVICE_CHECKED("random_", random_, random_);
  HOSTDEVICE_CHECKED("random_.to", random__to, random_);
  HOSTDEVICE_CHECKED("random_.from", random__from, random_);
  HOSTDEVICE_CHECKED("bernoulli_.float", bernoulli__float, bernoulli_);
  HOSTDEVICE_CHECKED("bernoulli_.Tensor", bernoulli__Tensor, bernoulli_);
  HOSTDEVICE_CHECKED("bernoulli.out", bernoulli_out, bernoulli_out);
  HOSTDEVICE_CHECKED("normal.Tensor_float", normal_Tensor_float, normal);
  HOSTDEVICE_CHECKED("normal.Tensor_float_out", normal_Tensor_float_out, normal_out);
  HOSTDEVICE_CHECKED("normal.float_Tensor", normal_float_Tensor, normal);
  HOSTDEVICE_CHECKED("normal.float_Tensor_out", normal_float_Tensor_out, normal_out);
  HOSTDEVICE_CHECKED("normal.Tensor_Tensor", normal_Tensor_Tensor, normal);
  HOSTDEVICE_CHECKED("normal.Tensor_Tensor_out", normal_Tensor_Tensor_out, normal_out);
  // The number of samples is a SymInt since 2.7; here it is an integer.
  using Multinomial = Tensor(const Tensor&, int64_t, bool, OptGenerator);
  using MultinomialOut = Tensor&(const Tensor&, int64_t, bool, OptGenerator, Tensor&);
  HOSTDEVICE_CHECKED_AS("multinomial", Multinomial, multinomial);
  HOSTDEVICE_CHECKED_AS("multinomial.out", MultinomialOut, multinomial_out);
#undef HOSTDEVICE_CHECKED
#undef HOSTDEVICE_CHECKED_AS
}

}  // namespace hostdevice
