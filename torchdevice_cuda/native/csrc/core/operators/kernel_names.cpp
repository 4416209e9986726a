#include "operators/kernel_names.h"

#include <cstring>
#include <string_view>

namespace hostdevice {
namespace {

struct NameRow {
  const char* cpu;
  const char* cuda;
  const char* op = nullptr;  // where kernels of several operators share the CPU's
};

// Where it is not the CPU's name with "cuda" for "cpu". From the names in PyTorch's sources.
constexpr NameRow kNameRows[] = {
    {"add_stub", "ufunc_add_CUDA"},
    {"mul_cpu_reduced_float", "mul_cuda"},
    {"sigmoid_cpu_reduced_float", "sigmoid_cuda"},
    {"pow", "pow_cuda"},
    {"maximum_cpu", "max_elementwise_cuda"},
    {"minimum_cpu", "min_elementwise_cuda"},
    {"clamp_min_scalar_cpu", "clamp_scalar_cuda"},
    {"clamp_max_scalar_cpu", "clamp_scalar_cuda"},
    {"lt_cpu", "compare_cuda"},
    {"le_cpu", "compare_cuda"},
    {"gt_cpu", "compare_cuda"},
    {"ge_cpu", "compare_cuda"},
    {"eq_cpu", "compare_eq_ne_cuda"},
    {"ne_cpu", "compare_eq_ne_cuda"},
    {"lerp_kernel_scalar", "lerp_cuda"},
    {"lerp_kernel_tensor", "lerp_cuda"},
    {"addcmul_cpu_out", "addcmul_cuda"},
    {"addcdiv_cpu_out", "addcdiv_cuda"},
    {"cross", "cross_cuda"},
    {"bmm", "baddbmm_cuda"},
    {"baddbmm", "baddbmm_cuda"},
    {"addmm_impl_cpu_", "addmm_cuda"},
    {"digamma", "digamma_cuda"},
    {"trigamma", "trigamma_cuda"},
    {"polygamma", "polygamma_cuda"},
    {"log_sigmoid_cpu", "log_sigmoid_forward_cuda"},
    {"GeluKernelImpl", "GeluCUDAKernelImpl"},
    {"GeluBackwardKernelImpl", "GeluBackwardCUDAKernelImpl"},
    {"cdist", "cdist_cuda"},
    {"cdist_backward", "cdist_cuda_backward"},
    {"pdist", "pdist_cuda"},
    {"pdist_backward", "pdist_cuda_backward"},

    {"softmax_lastdim_kernel_impl", "host_softmax"},
    {"softmax_kernel_impl", "host_softmax"},
    {"log_softmax_lastdim_kernel_impl", "host_softmax"},
    {"log_softmax_kernel_impl", "host_softmax"},
    {"batch_norm", "batch_norm_stats_cuda"},
    {"binary_cross_entropy", "binary_cross_entropy_out_cuda"},
    {"nll_loss_out_frame", "nll_loss_forward_no_reduce_cuda_kernel"},
    {"multi_margin_loss_cpu_kernel", "multi_margin_loss_cuda"},
    {"multilabel_margin_loss_forward_out_frame", "multilabel_margin_loss_forward_kernel"},

    {"min_all", "min_all_cuda"},
    {"max_all", "max_all_cuda"},
    {"median_out", "median_out_impl"},
    {"mode_cpu", "cuda_mode"},
    {"bernoulli_tensor_cpu_p_", "bernoulli_tensor_cuda_self_"},
    {"trace", "sum_cuda"},
    {"cumsum_out_cpu", "cumsum_cuda"},
    {"cumprod_out_cpu", "cumprod_cuda"},
    {"logcumsumexp_out_cpu", "logcumsumexp_cuda"},
    {"prod_out_cpu", "prod_cuda"},
    {"sorting_kernel_method_name", "sortKeyValueInplace"},
    {"topk_cpu", "topk_out_cuda"},
    {"nonzero_count_cpu", "nonzero_cuda"},
    {"_segment_reduce_cpu", "segment_reduce_cuda"},

    {"masked_fill", "masked_fill_"},
    {"masked_scatter", "masked_scatter_"},
    {"index_func_", "index_reduce", "index_reduce"},
    {"index_reduce_func_exclude_input_init", "index_reduce_func_cuda_exclude_input_init"},
    {"take_put_cpu", "put_cuda", "put"},
    {"take_put_cpu", "take_cuda", "take"},
    {"scatter_gather_tensor_cpu", "cuda_scatter_gather_base_kernel_func"},
    {"scatter_gather_scalar_cpu", "cuda_scatter_fill_base_kernel_func"},
    {"scatter_gather_tensor_cpu_reduce_amax", "cuda_scatter_gather_base_kernel_func"},
    {"scatter_gather_tensor_cpu_reduce_amin", "cuda_scatter_gather_base_kernel_func"},

    {"adaptive_avg_pool2d", "adaptive_avg_pool2d_cuda"},
    {"adaptive_max_pool2d", "adaptive_max_pool2d_cuda"},
    {"adaptive_max_pool3d", "adaptive_max_pool3d_cuda"},
    {"fractional_max_pool2d_out_frame", "fractional_max_pool2d_out_cuda_frame"},
    {"grid_sampler_2d_cpu_kernel_impl", "grid_sampler_2d_cuda"},
    {"grid_sampler3d_cpu", "grid_sampler_3d_cuda"},
    {"reflection_pad1d", "reflection_pad1d_out"},
    {"reflection_pad2d", "reflection_pad2d_out_template"},
    {"reflection_pad3d", "reflection_pad3d_out_cuda"},
    {"replication_pad1d", "replication_pad1d_cuda"},
    {"replication_pad2d", "replication_pad2d_cuda"},
    {"replication_pad3d", "replication_pad3d_cuda"},

    {"lu_cpu", "lu_factor_magma_batched", "linalg_lu"},  // of no matrices; one has a rule of its own
    {"lu_cpu", "lu_factor_magma_batched", "linalg_lu_factor_ex"},
    {"lu_cpu", "lu_factor_cusolver"},
    {"cholesky_cpu", "cholesky_cusolver"},
    {"linalg_svd_cpu", "svd_cuda_gesvdjBatched"},
    {"ldl_factor_kernel_cpu", "ldl_factor_looped_cusolver"},
};

std::string cuda_name(const std::string& cpu, const std::string& op) {
  for (const auto& row : kNameRows)
    if (cpu == row.cpu && (!row.op || op == row.op)) return row.cuda;
  // The CPU says as well when it uses a library for vectors.
  for (const std::string_view part : {"_vml_cpu", "_cpu"}) {
    const auto at = cpu.find(part);
    if (at != std::string::npos) return cpu.substr(0, at) + "_cuda" + cpu.substr(at + part.size());
  }
  return cpu;
}

}  // namespace

void refuse_as_cuda(const c10::NotImplementedError& refusal, const std::string& op, c10::ScalarType given) {
  static constexpr std::string_view kSaid = "\" not implemented for ";
  const std::string said = refusal.msg();
  const auto end = said.find(kSaid);
  if (said.empty() || said[0] != '"' || end == std::string::npos) return;
  const std::string type = given == c10::ScalarType::Undefined ? said.substr(end + kSaid.size())
                                                               : "'" + std::string(c10::toString(given)) + "'";
  TORCH_CHECK_NOT_IMPLEMENTED(false, '"', cuda_name(said.substr(1, end - 1), op), kSaid, type);
}

}  // namespace hostdevice
