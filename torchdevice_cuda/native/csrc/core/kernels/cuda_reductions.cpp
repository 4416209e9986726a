// Sums, means and norms of float32 in the order of CUDA's kernel; losses are their parts, as on CUDA.
#include "operators/reductions.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <bitset>
#include <memory>
#include <utility>
#include <vector>

#include "operators/alias.h"
#include "operators/boxed.h"
#include "operators/composites.h"
#include "runtime/allocator.h"
#include "runtime/device.h"

namespace hostdevice {
namespace {

using at::Tensor;
using torch::jit::Stack;
using OptDims = at::OptionalIntArrayRef;
using OptType = std::optional<at::ScalarType>;

// ---- layouts ------------------------------------------------------------------------------------------------------

// CUDA's kernel divides a reduction of more bytes.
constexpr int64_t kMostElements = (int64_t{1} << 29) - 1;
constexpr size_t kMostDims = 64;

struct Layout {
  ReducedShape shape;
  at::DimVector sizes;  // of the result
};

// Return the reduced dimensions, all if none is given; none if they are invalid.
std::optional<std::bitset<kMostDims>> find_dims(const Tensor& self, OptDims dims) {
  std::bitset<kMostDims> found;
  if (!dims.has_value() || dims->empty()) return ~found;
  for (int64_t d : *dims) {
    if (d < -self.dim() || d >= self.dim()) return std::nullopt;
    const auto dim = static_cast<size_t>(d < 0 ? d + self.dim() : d);
    if (found[dim]) return std::nullopt;
    found.set(dim);
  }
  return found;
}

// Return the layout if all reduced elements are apart from the others in memory, and the others in order.
std::optional<Layout> find_layout(const Tensor& self, OptDims dims, bool keeps_dims) {
  const int64_t rank = self.dim();
  if (rank == 0 || rank > static_cast<int64_t>(kMostDims) || !self.is_non_overlapping_and_dense()) return std::nullopt;
  const auto reduced = find_dims(self, dims);
  if (!reduced.has_value()) return std::nullopt;
  Layout found{{1, 1, 1, 0}, {}};
  c10::SmallVector<int64_t, 8> order;
  for (int64_t d = 0; d < rank; d++) {
    const bool goes = (*reduced)[static_cast<size_t>(d)];
    if (!goes || keeps_dims) found.sizes.push_back(goes ? 1 : self.size(d));
    if (self.size(d) != 1) order.push_back(d);
  }
  if (!self.is_contiguous())
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return self.stride(a) > self.stride(b); });
  int64_t last = -1, groups = 0;
  bool was_reduced = false;
  for (const int64_t d : order) {
    const bool goes = (*reduced)[static_cast<size_t>(d)];
    groups += goes && !was_reduced;
    was_reduced = goes;
    if (goes) {
      found.shape.length *= self.size(d);
    } else {
      if (d < last) return std::nullopt;
      last = d;
      (groups ? found.shape.after : found.shape.before) *= self.size(d);
    }
  }
  if (groups != 1) return std::nullopt;
  return found;
}

// ---- calls --------------------------------------------------------------------------------------------------------

// Columns that are reduced at a time: their sums stay in the nearest cache.
int64_t choose_columns(const ReducedShape& shape, const ReductionOrder& order) {
  constexpr int64_t kAtOnce = 256;
  const int64_t most = order.blocks > 1 ? kMostSums : kMostSums / 4;
  return order.threads() * shape.after <= most ? shape.after : std::min(shape.after, kAtOnce);
}

void run(Reduction& r, const Reducer& reducer) {
  constexpr int64_t kGrain = 32768;  // elements that are worth another thread
  const int64_t groups = r.groups(), tasks = groups * r.order.blocks;
  const int64_t elements = r.shape.outputs() * r.shape.length;
  const int64_t grain = std::max<int64_t>(1, kGrain * tasks / elements);
  std::unique_ptr<float[]> of_blocks;
  if (r.order.blocks > 1) {
    of_blocks.reset(new float[static_cast<size_t>(tasks * r.columns * reducer.planes)]);
    r.of_blocks = of_blocks.get();
  }
  at::parallel_for(0, tasks, grain, [&](int64_t begin, int64_t end) { reducer.run(r, Phase::Blocks, begin, end); });
  if (r.order.blocks > 1) reducer.run(r, Phase::Groups, 0, groups);
}

Tensor make_result(const Tensor& self, at::IntArrayRef sizes) {
  return Tensor(
      at::detail::empty_generic(
          sizes, device_allocator(), c10::DispatchKeySet(kDense), self.scalar_type(), std::nullopt));
}

// ---- operators ----------------------------------------------------------------------------------------------------

Tensor sum(const Tensor& self, OptType dtype) {
  const auto found = reduce_in_order(self, std::nullopt, false, dtype, {kSum});
  return found.has_value() ? *found : reduce_on_cpu("aten::sum", "", {self, dtype});
}
Tensor mean_all(const Tensor& self, OptType dtype) {
  const auto found = reduce_in_order(self, std::nullopt, false, dtype, {kSum, true});
  return found.has_value() ? *found : reduce_on_cpu("aten::mean", "", {self, dtype});
}
Tensor mean(const Tensor& self, OptDims dims, bool keeps_dims, OptType dtype) {
  const auto found = reduce_in_order(self, dims, keeps_dims, dtype, {kSum, true});
  return found.has_value() ? *found : reduce_on_cpu("aten::mean", "dim", {self, dims, keeps_dims, dtype});
}
Tensor norm(const Tensor& self, const at::Scalar& power, OptDims dims, bool keeps_dims, OptType dtype) {
  if (power.equal(2))
    if (const auto found = reduce_in_order(self, dims, keeps_dims, dtype, {kSumOfSquares})) return *found;
  return reduce_on_cpu("aten::linalg_vector_norm", "", {self, power, dims, keeps_dims, dtype});
}

// CUDA computes the loss of each element, then their sum or mean. The third argument chooses.
void reduce_loss(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  const auto takes = [](const c10::IValue& v) { return v.isTensor() && v.toTensor().scalar_type() == at::kFloat; };
  const int64_t reduction = arguments[2].toInt();
  if (reduction == at::Reduction::None || !takes(arguments[0]) || !takes(arguments[1]))
    return run_on_cpu(op, c10::DispatchKey::CPU, stack);
  (*stack)[stack->size() - arguments.size() + 2] = static_cast<int64_t>(at::Reduction::None);
  run_on_cpu(op, c10::DispatchKey::CPU, stack);
  const Tensor each = std::move(stack->back()).toTensor();
  stack->back() = reduction == at::Reduction::Mean ? at::mean(each) : at::sum(each);
}

}  // namespace

std::optional<Tensor> reduce_in_order(
    const Tensor& self, OptDims dims, bool keeps_dims, OptType dtype, const Reduced& what) {
  if (!runs_wide() || self.scalar_type() != at::kFloat || dtype.value_or(at::kFloat) != at::kFloat ||
      !is_device_tensor(self) || !is_plain(self) || self.is_neg() || self.numel() == 0 || self.numel() > kMostElements)
    return std::nullopt;
  auto layout = find_layout(self, dims, keeps_dims);
  if (!layout.has_value() || static_cast<double>(layout->shape.length) <= what.more_than) return std::nullopt;
  check_fork();
  const OnDevice here(self.device().index());
  Reduction r{};
  r.data = self.const_data_ptr<float>();
  r.shape = layout->shape;
  r.shape.offset = static_cast<int64_t>(reinterpret_cast<uintptr_t>(r.data) / sizeof(float) % 4);
  r.order = find_order(r.shape, what.reducer.accumulators, multiprocessors());
  r.columns = choose_columns(r.shape, r.order);
  r.factor = what.averages ? static_cast<float>(r.shape.outputs()) / static_cast<float>(self.numel()) : what.factor;
  r.takes_root = what.takes_root;
  Tensor result = make_result(self, layout->sizes);
  r.results = result.mutable_data_ptr<float>();
  if (what.means) {
    *what.means = make_result(self, layout->sizes);
    r.means = what.means->mutable_data_ptr<float>();
  }
  run(r, what.reducer);
  return result;
}

Tensor reduce_on_cpu(const char* name, const char* overload, Stack arguments) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  run_on_cpu(op, c10::DispatchKey::CPU, &arguments);
  return std::move(arguments.back()).toTensor();
}

void register_reductions(Registrar& registrar) {
  registrar.impl("sum", TORCH_FN(sum));
  registrar.impl("mean", TORCH_FN(mean_all));
  registrar.impl("mean.dim", TORCH_FN(mean));
  registrar.impl("linalg_vector_norm", TORCH_FN(norm));
  for (const char* name : {"mse_loss", "smooth_l1_loss", "huber_loss"}) registrar.impl(name, &reduce_loss);
}

}  // namespace hostdevice
