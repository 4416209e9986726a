#include "operators/alerts.h"

#include <ATen/Context.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

#include "compat.h"
#include "operators/facts.h"
#include "operators/registration.h"
#include "runtime/captures.h"
#include "runtime/device.h"
#include "runtime/failure.h"
#include "runtime/gpu_trace.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

using torch::jit::Stack;

// ---- arguments that make a difference ------------------------------------------------------------------------------

template <size_t kPosition>
bool is_floating(const Stack& stack, size_t base) {
  return c10::isFloatingType(stack[base + kPosition].toTensor().scalar_type());
}
template <size_t kPosition>
bool is_given(const Stack& stack, size_t base) {
  const auto& v = stack[base + kPosition];
  return v.isTensor() && v.toTensor().defined();
}
template <size_t kPosition>
bool reduces(const Stack& stack, size_t base) {
  return stack[base + kPosition].toInt() != at::Reduction::None;
}
template <size_t kPosition>
bool takes_largest(const Stack& stack, size_t base) {
  constexpr int64_t kModeMax = 2;  // of torch.nn.functional.embedding_bag
  return stack[base + kPosition].toInt() == kModeMax;
}
// scatter(self, dim, index, src, *, reduce) and scatter_reduce(self, dim, index, src, reduce): sums have another way.
bool multiplies(const Stack& stack, size_t base) {
  const auto& how = stack[base + 4].toStringRef();
  return how == "prod" || how == "multiply";
}

// put(self, index, source, accumulate): of the others the CPU's kernel says it itself.
bool accumulates(const Stack& stack, size_t base) {
  return stack[base + 3].toBool();
}

bool lies_on_cpu(const c10::IValue& v) {
  return v.isTensor() && v.toTensor().defined() && v.toTensor().device().is_cpu();
}
template <size_t kPosition>
bool is_none(const Stack& stack, size_t base) {
  return stack[base + kPosition].isNone();
}
// equal(self, other): one storage, or two shapes, need no look at the elements.
bool compares(const Stack& stack, size_t base) {
  const auto &a = stack[base].toTensor(), &b = stack[base + 1].toTensor();
  return a.sizes() == b.sizes() && !a.is_same(b);
}
// histc(self, bins, min, max): without a range the elements' own is looked for.
bool looks_for_range(const Stack& stack, size_t base) {
  return stack[base + 2].toScalar().toDouble() == stack[base + 3].toScalar().toDouble();
}
// masked_fill(self, mask, value), index_fill(self, dim, index, value): the value goes to the kernel as a number.
template <size_t kPosition>
bool fills_from_device(const Stack& stack, size_t base) {
  return !lies_on_cpu(stack[base + kPosition]);
}
// where(condition, self, other)
bool chooses_from_host(const Stack& stack, size_t base) {
  return lies_on_cpu(stack[base + 1]) || lies_on_cpu(stack[base + 2]);
}
// index(self, indices) and index_put(self, indices, values, ...): how many elements a mask chooses is known when the
// GPU has counted them, and what the host has is copied to it. One number for a mask's elements is not copied, nor are
// they counted: each element decides for itself, unless numbers are added up.
bool waits_for_indices(const Stack& stack, size_t base) {
  const bool number =
      stack.size() - base > 2 && lies_on_cpu(stack[base + 2]) && stack[base + 2].toTensor().numel() == 1;
  bool counts = false, copies = false, masks = true;
  each_tensor(stack[base + 1], Kind::OptionalTensorList, [&](const at::Tensor& t) {
    const auto type = t.scalar_type();
    const bool mask = type == c10::kBool || type == c10::kByte;
    masks = masks && mask;
    counts = counts || (mask && !t.device().is_cpu());
    copies = copies || (!mask && t.device().is_cpu());
  });
  const bool adds = stack.size() - base > 3 && stack[base + 3].toBool();
  if (number && masks && !adds) return false;
  return counts || copies || number;
}

// ---- the tables ----------------------------------------------------------------------------------------------------

// Names of callers are those of CUDA's sources. max_unpool is missing: the CPU's kernels say it themselves.
constexpr Nondeterministic kNondeterministic[] = {
    {"_adaptive_avg_pool2d_backward", "adaptive_avg_pool2d_backward_cuda"},
    {"_adaptive_avg_pool3d_backward", "adaptive_avg_pool3d_backward_cuda"},
    {"_ctc_loss_backward", "ctc_loss_backward_gpu"},
    {"_embedding_bag_backward", "embedding_bag_backward_cuda_max", &takes_largest<8>},
    {"_embedding_bag_dense_backward", "embedding_bag_backward_cuda_max", &takes_largest<7>},
    {"_upsample_bicubic2d_aa_backward", "upsample_bicubic2d_aa_backward_out_cuda"},
    {"_upsample_bilinear2d_aa_backward", "upsample_bilinear2d_aa_backward_out_cuda"},
    {"adaptive_avg_pool3d_backward", "adaptive_avg_pool3d_backward_out_cuda"},
    {"adaptive_max_pool2d_backward", "adaptive_max_pool2d_backward_cuda"},
    {"avg_pool3d_backward", "avg_pool3d_backward_cuda"},
    {"bincount", "_bincount_cuda", &is_given<1>},
    {"fractional_max_pool2d_backward", "fractional_max_pool2d_backward_cuda"},
    {"fractional_max_pool3d_backward", "fractional_max_pool3d_backward_cuda"},
    {"grid_sampler_2d_backward", "grid_sampler_2d_backward_cuda"},
    {"grid_sampler_3d_backward", "grid_sampler_3d_backward_cuda"},
    {"histc", "_histc_cuda with floating point input", &is_floating<0>},
    {"index_reduce", "index_reduce_cuda"},
    {"index_reduce_", "index_reduce_cuda"},
    {"nll_loss2d_forward", "nll_loss2d_forward_out_cuda_template", &reduces<3>},
    {"put", "put_", &accumulates},
    {"put_", "put_", &accumulates},
    {"reflection_pad1d_backward", "reflection_pad1d_backward_out_cuda"},
    {"reflection_pad3d_backward", "reflection_pad3d_backward_out_cuda"},
    {"replication_pad1d_backward", "replication_pad1d_backward_cuda"},
    {"replication_pad2d_backward", "replication_pad2d_backward_cuda"},
    {"replication_pad3d_backward", "replication_pad3d_backward_cuda"},
    {"scatter.reduce", "scatter_reduce_cuda_kernel", &multiplies},
    {"scatter_.reduce", "scatter_reduce_cuda_kernel", &multiplies},
    {"scatter.reduce_out", "scatter_reduce_cuda_kernel", &multiplies},
    {"scatter_reduce.two", "scatter_reduce_cuda_prod_", &multiplies},
    {"scatter_reduce_.two", "scatter_reduce_cuda_prod_", &multiplies},
    {"scatter_reduce.two_out", "scatter_reduce_cuda_prod_", &multiplies},
    {"upsample_bicubic2d_backward", "upsample_bicubic2d_backward_out_cuda"},
    {"upsample_bilinear2d_backward", "upsample_bilinear2d_backward_out_cuda"},
    {"upsample_linear1d_backward", "upsample_linear1d_backward_out_cuda"},
    {"upsample_trilinear3d_backward", "upsample_trilinear3d_backward_out_cuda"},
};
// What later versions compute deterministically.
constexpr Nondeterministic kOnceNondeterministic[] = {
    {"median.dim", "median CUDA with indices output"},
    {"median.dim_values", "median CUDA with indices output"},
    {"nanmedian.dim", "median CUDA with indices output"},
    {"nanmedian.dim_values", "median CUDA with indices output"},
};
constexpr Nondeterministic kMaxPool3dBackward = {
    "max_pool3d_with_indices_backward", "max_pool3d_with_indices_backward_cuda"};

// Besides what PyTorch itself says of an operator: that its result, or its result's shape, depends on elements.
constexpr Waiting kWaiting[] = {
    {"_linalg_eigh"},
    {"_linalg_svd"},
    {"_to_sparse"},
    {"_to_sparse_bsc"},
    {"_to_sparse_bsr"},
    {"_to_sparse_csc"},
    {"_to_sparse_csr"},
    {"cholesky"},
    {"equal", &compares},
    {"histc", &looks_for_range},
    {"index_fill.int_Tensor", &fills_from_device<3>},
    {"index_fill_.int_Tensor", &fills_from_device<3>},
    {"linalg_eig"},
    {"linalg_matrix_exp"},
    {"linspace.Scalar_Tensor"},
    {"linspace.Tensor_Scalar"},
    {"linspace.Tensor_Tensor"},
    {"masked_fill.Tensor", &fills_from_device<2>},
    {"masked_fill_.Tensor", &fills_from_device<2>},
    {"normal.Tensor_Tensor"},
    {"normal.float_Tensor"},
    {"repeat_interleave.Tensor", &is_none<1>},
    {"unique_consecutive", &is_none<3>},
    {"where.self", &chooses_from_host},
};
constexpr Waiting kAlways = {"*"}, kForIndices = {"*", &waits_for_indices};

// CUDA counts in these by a library that waits by itself, unnoticed.
bool waits_unnoticed(const std::string& name) {
  return name == "unique_dim" || name == "unique_dim_consecutive";
}

template <class Row, size_t kRows>
const Row* find_in(const Row (&rows)[kRows], const std::string& name) {
  const std::string bare = name.substr(0, name.find('.'));
  for (const auto& row : rows)
    if (name == row.name || bare == row.name) return &row;
  return nullptr;
}

}  // namespace

const Nondeterministic* find_nondeterministic(const c10::OperatorHandle& op) {
  const std::string name = aten_name(op.schema().name(), op.schema().overload_name());
  if (!kIsCuda || name.empty()) return nullptr;
  const auto* found = find_in(kNondeterministic, name);
  if (!found && kMedianAlerts) found = find_in(kOnceNondeterministic, name);
  if (!found && kMaxPool3dAlerts && name.rfind(kMaxPool3dBackward.name, 0) == 0) found = &kMaxPool3dBackward;
  return found;
}

const Waiting* find_waiting(const c10::OperatorHandle& op) {
  const std::string name = aten_name(op.schema().name(), op.schema().overload_name());
  if (!kIsCuda || name.empty() || waits_unnoticed(name)) return nullptr;
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
