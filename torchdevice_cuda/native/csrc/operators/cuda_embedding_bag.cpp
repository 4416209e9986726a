// Bags of embeddings: CUDA says of each index which bag it is in and of each bag how many count, whatever is made of
// them, and takes the first bag to begin at the first index.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "operators/alias.h"
#include "operators/boxed.h"
#include "operators/composites.h"

namespace hostdevice {
namespace {

using at::Tensor;
using Bags = std::tuple<Tensor, Tensor, Tensor, Tensor>;

constexpr int64_t kMax = 2;

// Of offsets that the CPU's kernel has found to rise.
template <class Index>
std::pair<Tensor, Tensor> placed(const Tensor& indices, const Tensor& offsets, int64_t padding) {
  const auto count = indices.numel(), bags = offsets.numel();
  Tensor of_bag = at::empty({count}, indices.options()), sizes = at::zeros({bags}, indices.options());
  if (!bags) return {of_bag, sizes};
  const auto *begins = offsets.const_data_ptr<Index>(), *given = indices.const_data_ptr<Index>();
  auto *to = of_bag.mutable_data_ptr<Index>(), *counts = sizes.mutable_data_ptr<Index>();
  for (int64_t i = 0, bag = 0; i < count; i++) {
    while (bag + 1 < bags && begins[bag + 1] <= i) bag++;
    to[i] = static_cast<Index>(bag);
    counts[bag] += given[i] != padding;
  }
  return {of_bag, sizes};
}

// Where a bag has none, -1 is the largest of each column.
template <class Index>
void mark_empty(Tensor& largest, const Tensor& sizes) {
  const int64_t columns = largest.size(1);
  const auto* counts = sizes.const_data_ptr<Index>();
  auto* to = largest.mutable_data_ptr<Index>();
  for (int64_t bag = 0; bag < largest.size(0); bag++)
    if (!counts[bag]) std::fill_n(to + bag * columns, columns, Index{-1});
}

// Read where it is: CUDA's kernel does not wait for it either.
int64_t first_of(const Tensor& offsets) {
  if (!is_device_tensor(offsets) || offsets.dim() != 1 || offsets.numel() == 0) return 0;
  if (offsets.scalar_type() == at::kLong) return *offsets.const_data_ptr<int64_t>();
  return offsets.scalar_type() == at::kInt ? *offsets.const_data_ptr<int32_t>() : 0;
}

template <bool kForwardOnly>
Bags bag(
    const Tensor& weight, const Tensor& indices, const Tensor& offsets, bool by_frequency, int64_t mode, bool sparse,
    const OptTensor& weights, bool last, int64_t padding) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
      kForwardOnly ? "aten::_embedding_bag_forward_only" : "aten::_embedding_bag", "");
  Tensor begins = offsets;
  if (first_of(offsets) != 0) {
    begins = offsets.clone();
    begins.narrow(0, 0, 1).zero_();
  }
  torch::jit::Stack stack{weight, indices, begins, by_frequency, mode, sparse, weights, last, padding};
  run_on_cpu(op, c10::DispatchKey::CPU, &stack);
  const Tensor made = stack[0].toTensor();
  // They are of one type since the CPU's kernel has computed, or there is nothing.
  const auto type = at::promoteTypes(indices.scalar_type(), offsets.scalar_type());
  const Tensor found = indices.to(type).contiguous(), from = begins.to(type).contiguous();
  const bool narrow = type == at::kInt;
  auto [of_bag, sizes] = narrow ? placed<int32_t>(found, from, padding) : placed<int64_t>(found, from, padding);
  Tensor largest = mode == kMax ? stack[3].toTensor().to(type).contiguous() : at::empty({0}, found.options());
  if (mode == kMax) narrow ? mark_empty<int32_t>(largest, sizes) : mark_empty<int64_t>(largest, sizes);
  return {made, of_bag, sizes, largest};
}

}  // namespace

void register_embedding_bags(Registrar& registrar) {
  registrar.impl_where_known("_embedding_bag", TORCH_FN(bag<false>));
  registrar.impl_where_known("_embedding_bag_forward_only", TORCH_FN(bag<true>));
}

}  // namespace hostdevice
