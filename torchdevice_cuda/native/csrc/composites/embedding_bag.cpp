// embedding_bag like CUDA. In every mode, it returns the bag of each index and the number of counted indices of each
// bag. It treats the first bag as beginning at the first index and the last bag as ending at the last index. For 2-D
// indices it reads only as many indices as there are rows, from the first on.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "operators/alias.h"
#include "operators/assertions.h"
#include "operators/boxed.h"
#include "operators/composites.h"

namespace hostdevice {
namespace {

using at::Tensor;
using Bags = std::tuple<Tensor, Tensor, Tensor, Tensor>;

constexpr int64_t kMax = 2;
// The source lines are those of torch 2.11.
constexpr const char* kSums =
    "/pytorch/aten/src/ATen/native/cuda/EmbeddingBag.cu:138: EmbeddingBag_updateOutputKernel_sum_mean";
constexpr const char* kLargest =
    "/pytorch/aten/src/ATen/native/cuda/EmbeddingBag.cu:77: EmbeddingBag_updateOutputKernel_max";

// Return the bag of each index, and the size of each bag. The CPU's kernel has checked that the offsets do not
// decrease.
template <class Index>
std::pair<Tensor, Tensor> assign_bags(const Tensor& indices, const Tensor& offsets, int64_t padding) {
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

// Set the max index of every column to -1 for empty bags.
template <class Index>
void mark_empty(Tensor& largest, const Tensor& sizes) {
  const int64_t columns = largest.size(1);
  const auto* counts = sizes.const_data_ptr<Index>();
  auto* to = largest.mutable_data_ptr<Index>();
  for (int64_t bag = 0; bag < largest.size(0); bag++)
    if (!counts[bag]) std::fill_n(to + bag * columns, columns, Index{-1});
}

// Return where CUDA's kernel takes bags to begin and, with `last`, where the last bag ends. Read the offsets in place:
// CUDA's kernel does not synchronize for them either.
template <class Index>
Tensor find_bag_starts(const Tensor& offsets, int64_t count, bool last, int64_t mode) {
  const Tensor given = offsets.contiguous();
  const auto* from = given.const_data_ptr<Index>();
  const int64_t bags = given.numel() - last;
  const auto begin = [&](int64_t bag) {
    return bag == 0 ? Index{0} : bag < bags ? from[bag] : static_cast<Index>(count);
  };
  int64_t bag = 0;
  while (bag < bags && begin(bag) <= begin(bag + 1)) bag++;
  if (bag < bags)
    assert_element(
        offsets.device().index(), mode == kMax ? kLargest : kSums, "end >= begin",
        c10::str("bag ", bag, " begins at ", begin(bag), ", after its end"));
  else if (from[0] == 0 && (!last || from[bags] == static_cast<Index>(count)))
    return offsets;
  Tensor begins = at::zeros_like(given);  // valid offsets for any kernel
  auto* to = begins.mutable_data_ptr<Index>();
  if (bag == bags)
    for (int64_t i = 0; i < bags; i++) to[i] = begin(i);
  if (last) to[bags] = static_cast<Index>(count);
  return begins;
}

// Return the weights that CUDA's kernel reads: the first of each row for 2-D weights; the first `count` if there are
// more weights than indices.
OptTensor select_weights(const OptTensor& given, int64_t count) {
  if (!given || !given->defined()) return given;
  const Tensor& all = *given;
  if (all.dim() == 2 && all.size(0) == count && all.size(1) > 0) return all.select(1, 0).contiguous();
  return all.dim() == 1 && all.numel() > count ? all.narrow(0, 0, count) : all;
}

template <bool kForwardOnly>
Bags bag(
    const Tensor& weight, const Tensor& given, const Tensor& offsets, bool by_frequency, int64_t mode, bool sparse,
    const OptTensor& weights, bool last, int64_t padding) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
      kForwardOnly ? "aten::_embedding_bag_forward_only" : "aten::_embedding_bag", "");
  const Tensor indices = given.dim() == 2 ? given.contiguous().view(-1).narrow(0, 0, given.size(0)) : given;
  const int64_t count = indices.numel(), bags = offsets.numel() - last;
  Tensor begins = offsets;
  if (is_device_tensor(offsets) && offsets.dim() == 1 && bags > 0) {
    if (offsets.scalar_type() == at::kLong) begins = find_bag_starts<int64_t>(offsets, count, last, mode);
    if (offsets.scalar_type() == at::kInt) begins = find_bag_starts<int32_t>(offsets, count, last, mode);
  }
  // The results have the common type of indices and offsets.
  const auto type = at::promoteTypes(indices.scalar_type(), offsets.scalar_type());
  if (last && bags == 0 && offsets.dim() == 1 && weight.dim() == 2) {
    const auto options = indices.options().dtype(type);
    return {
        at::empty({0, weight.size(1)}, weight.options()), at::zeros({count}, options), at::zeros({1}, options),
        at::empty({0, mode == kMax ? weight.size(1) : 0}, options)};
  }
  const OptTensor read = given.dim() == 2 ? select_weights(weights, count) : weights;
  torch::jit::Stack stack{weight, indices, begins, by_frequency, mode, sparse, read, last, padding};
  run_on_cpu(op, c10::DispatchKey::CPU, &stack);
  const Tensor made = stack[0].toTensor();
  const Tensor found = indices.to(type).contiguous(), from = begins.to(type).contiguous();
  const bool narrow = type == at::kInt;
  auto [of_bag, sizes] =
      narrow ? assign_bags<int32_t>(found, from, padding) : assign_bags<int64_t>(found, from, padding);
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
