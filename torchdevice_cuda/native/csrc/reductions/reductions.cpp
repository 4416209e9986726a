// Products and variances of float32 in the order of CUDA's kernel.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>
#include <tuple>
#include <utility>

#include "operators/boxed.h"
#include "operators/reductions.h"
#include "operators/registration.h"

namespace hostdevice {
namespace {

using at::Tensor;
using torch::jit::Stack;
using OptDims = at::OptionalIntArrayRef;
using OptType = std::optional<at::ScalarType>;
using OptScalar = std::optional<at::Scalar>;

// ---- operations ----------------------------------------------------------------------------------------------------

struct Product : Sum {
  static constexpr bool kAdds = false;
  static HOSTDEVICE_WIDE_INLINE State start() {
    return {1};
  }
  static HOSTDEVICE_WIDE_INLINE State reduce(State a, float x) {
    return {a.value * x};
  }
  static HOSTDEVICE_WIDE_INLINE State combine(State a, State b) {
    return {a.value * b.value};
  }
  static HOSTDEVICE_WIDE_INLINE void finish(const Reduction& r, int64_t at, State s) {
    r.results[at] = s.value;
  }
};

// Welford's algorithm. Where CUDA's compiler fuses a product with a sum, so does this.
struct Moments {
  struct State {
    float mean, squares, count;
  };
  static constexpr int kPlanes = 3, kAccumulators = 2;
  static constexpr bool kAdds = false;
  static HOSTDEVICE_WIDE_INLINE State start() {
    return {0, 0, 0};
  }
  static HOSTDEVICE_WIDE_INLINE State reduce(State a, float x) {
    const float count = a.count + 1, delta = x - a.mean, mean = a.mean + delta / count;
    return {mean, std::fma(delta, x - mean, a.squares), count};
  }
  static HOSTDEVICE_WIDE_INLINE State combine(State a, State b) {
    const float delta = b.mean - a.mean, count = a.count + b.count, share = b.count / count;
    const float mean = std::fma(delta, share, a.mean);
    const State both{mean, std::fma(delta * delta * a.count, share, a.squares + b.squares), count};
    const State single = a.count == 0 ? b : a;
    return a.count == 0 || b.count == 0 ? single : both;
  }
  static HOSTDEVICE_WIDE_INLINE void finish(const Reduction& r, int64_t at, State s) {
    const float variance = s.squares / (s.count - r.factor);
    r.results[at] = r.takes_root ? std::sqrt(variance) : variance;
    if (r.means) r.means[at] = s.mean;
  }
};

constexpr Reducer kProduct{Product::kAccumulators, Product::kPlanes, &reduce_part<Product, true>};
constexpr Reducer kMoments{Moments::kAccumulators, Moments::kPlanes, &reduce_part<Moments, false>};

// ---- operators -----------------------------------------------------------------------------------------------------

Tensor multiply_all(const Tensor& self, OptType dtype) {
  const auto found = reduce_in_order(self, std::nullopt, false, dtype, {kProduct});
  return found.has_value() ? *found : reduce_on_cpu("aten::prod", "", {self, dtype});
}
Tensor multiply(const Tensor& self, int64_t dim, bool keeps_dim, OptType dtype) {
  const auto found = reduce_in_order(self, at::IntArrayRef(dim), keeps_dim, dtype, {kProduct});
  return found.has_value() ? *found : reduce_on_cpu("aten::prod", "dim_int", {self, dim, keeps_dim, dtype});
}

std::optional<Tensor> find_moments(
    const Tensor& self, OptDims dims, const OptScalar& correction, bool keeps_dims, bool takes_root, Tensor* means) {
  const double less = correction.value_or(1).toDouble();
  const Reduced what{kMoments, false, static_cast<float>(less), takes_root, less, means};
  return reduce_in_order(self, dims, keeps_dims, std::nullopt, what);
}
template <bool kTakesRoot>
Tensor vary(const Tensor& self, OptDims dims, const OptScalar& correction, bool keeps_dims) {
  const auto found = find_moments(self, dims, correction, keeps_dims, kTakesRoot, nullptr);
  const char* name = kTakesRoot ? "aten::std" : "aten::var";
  return found.has_value() ? *found : reduce_on_cpu(name, "correction", {self, dims, correction, keeps_dims});
}
template <bool kTakesRoot>
std::tuple<Tensor, Tensor> vary_with_mean(
    const Tensor& self, OptDims dims, const OptScalar& correction, bool keeps_dims) {
  Tensor mean;
  if (const auto found = find_moments(self, dims, correction, keeps_dims, kTakesRoot, &mean)) return {*found, mean};
  const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow(kTakesRoot ? "aten::std_mean" : "aten::var_mean", "correction");
  Stack stack{self, dims, correction, keeps_dims};
  run_on_cpu(op, c10::DispatchKey::CPU, &stack);
  return {std::move(stack[0]).toTensor(), std::move(stack[1]).toTensor()};
}

}  // namespace

void register_products_and_variances(Registrar& registrar) {
  registrar.impl("prod", TORCH_FN(multiply_all));
  registrar.impl("prod.dim_int", TORCH_FN(multiply));
  registrar.impl("var.correction", TORCH_FN(vary<false>));
  registrar.impl("std.correction", TORCH_FN(vary<true>));
  registrar.impl("var_mean.correction", TORCH_FN(vary_with_mean<false>));
  registrar.impl("std_mean.correction", TORCH_FN(vary_with_mean<true>));
}

}  // namespace hostdevice
