// Linear algebra in which CUDA's libraries use other layouts, algorithms or checks than the CPU's.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include "operators/boxed.h"
#include "operators/composites.h"
#include "operators/recorded.h"

namespace hostdevice {
namespace {

using at::Tensor;
using torch::jit::Stack;

c10::IValue& argument(const c10::OperatorHandle& op, Stack* stack, size_t position) {
  return (*stack)[stack->size() - op.schema().arguments().size() + position];
}

// LAPACK crashes on NaN and infinity, so raise cuSOLVER's error.
void eigvals(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const Tensor& given = argument(op, stack, 0).toTensor();
  TORCH_CHECK(
      !given.isfinite().logical_not_().any().item<bool>(),
      "cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR, when calling `cusolverDnXgeev( handle, params, jobvl, jobvr, n, "
      "CUDA_R_32F, reinterpret_cast<void*>(A), lda, CUDA_R_32F, reinterpret_cast<void*>(W), CUDA_R_32F, "
      "reinterpret_cast<void*>(VL), ldvl, CUDA_R_32F, reinterpret_cast<void*>(VR), ldvr, CUDA_R_32F, "
      "reinterpret_cast<void*>(bufferOnDevice), workspaceInBytesOnDevice, reinterpret_cast<void*>(bufferOnHost), "
      "workspaceInBytesOnHost, info)`. If you keep seeing this error, you may use "
      "`torch.backends.cuda.preferred_linalg_library()` to try linear algebra operators with other supported backends. "
      "See https://pytorch.org/docs/stable/backends.html#torch.backends.cuda.preferred_linalg_library");
  run_on_cpu(op, c10::DispatchKey::CPU, stack);
}

// CUDA returns row-major eigenvectors.
std::tuple<Tensor, Tensor> eig(const Tensor& self) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::linalg_eig", "");
  torch::jit::Stack stack{self};
  run_on_cpu(op, c10::DispatchKey::CPU, &stack);
  return {stack[0].toTensor(), stack[1].toTensor().clone(at::MemoryFormat::Contiguous)};
}

// cuSOLVER returns a row-major Vh, and has drivers that the CPU's kernel does not know.
void svd(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  constexpr size_t kDriver = 3;
  const auto& arguments = op.schema().arguments();
  c10::IValue& driver = (*stack)[stack->size() - arguments.size() + kDriver];
  if (driver.isString()) {
    const std::string& name = driver.toStringRef();
    TORCH_CHECK(
        name == "gesvd" || name == "gesvdj" || name == "gesvda", "torch.linalg.svd: unknown svd driver ", name,
        " in svd_cusolver computation. Check doc at https://pytorch.org/docs/stable/generated/torch.linalg.svd.html");
    driver = c10::IValue();
  }
  run_on_cpu(op, c10::DispatchKey::CPU, stack);
  if (op.schema().overload_name().empty()) stack->back() = stack->back().toTensor().clone(at::MemoryFormat::Contiguous);
}

// CUDA has one driver for least squares; the CPU has four, and its default is another one.
void lstsq(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  constexpr size_t kDriver = 3;
  c10::IValue& driver = argument(op, stack, kDriver);
  if (driver.isString()) {
    std::string name = driver.toStringRef();
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    TORCH_CHECK(name == "gels", "torch.linalg.lstsq: `driver` other than `gels` is not supported on CUDA");
  }
  driver = "gels";
  run_on_cpu(op, c10::DispatchKey::CPU, stack);
}

// cuSOLVER solves with the factor twice and does not check it for zeros, which yield non-finite values.
Tensor cholesky_inverse(const Tensor& self, bool upper) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::cholesky_inverse", "");
  Stack stack{self, upper};
  try {
    run_on_cpu(op, c10::DispatchKey::CPU, &stack);
    return std::move(stack.back()).toTensor();
  } catch (const c10::LinAlgError&) {
    const Tensor one = at::eye(self.size(-1), self.options()).expand_as(self);
    const Tensor factor = upper ? self.mH() : self;
    const Tensor half = at::linalg_solve_triangular(factor, one, false);
    return at::linalg_solve_triangular(factor.mH(), half, true);
  }
}
Tensor& cholesky_inverse_out(const Tensor& self, bool upper, Tensor& out) {
  const Tensor made = cholesky_inverse(self, upper);
  TORCH_CHECK(
      c10::canCast(self.scalar_type(), out.scalar_type()),
      "cholesky_inverse: Expected result to be safely castable from ", self.scalar_type(),
      " dtype, but got result with dtype ", out.scalar_type());
  at::native::resize_output(out, made.sizes());
  return out.copy_(made);
}

// Factorize without pivoting, column by column, all matrices of a batch at once. Also return the index of the first
// zero on the diagonal, counted from 1 (0: none).
std::pair<Tensor, Tensor> factorize_unpivoted(const Tensor& given) {
  const int64_t rows = given.size(-2), columns = given.size(-1);
  Tensor lu = given.mT().clone(at::MemoryFormat::Contiguous).mT();
  Tensor info =
      at::zeros(given.sizes().slice(0, static_cast<size_t>(given.dim()) - 2), given.options().dtype(at::kInt));
  for (int64_t i = 0; i < std::min(rows, columns); i++) {
    const Tensor element = lu.select(-2, i).select(-1, i);
    info.masked_fill_((element == 0).logical_and_(info == 0), i + 1);
    if (i + 1 == rows) break;
    const Tensor below = lu.narrow(-2, i + 1, rows - i - 1);
    const Tensor factors = below.select(-1, i).div_(element.unsqueeze(-1)).unsqueeze(-1);
    if (i + 1 == columns) break;
    const int64_t rest = columns - i - 1;
    below.narrow(-1, i + 1, rest).sub_(factors * lu.select(-2, i).narrow(-1, i + 1, rest).unsqueeze(-2));
  }
  return {lu, info};
}

// LAPACK always pivots.
void lu(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  if (argument(op, stack, 1).toBool()) {
    run_on_cpu(op, c10::DispatchKey::CPU, stack);
    return;
  }
  const auto& arguments = op.schema().arguments();
  compare_devices(op, Stack(stack->end() - static_cast<ptrdiff_t>(arguments.size()), stack->end()));
  const bool factors = op.schema().name() == "aten::linalg_lu_factor_ex";
  const Tensor given = argument(op, stack, 0).toTensor();
  TORCH_CHECK(
      given.dim() >= 2, factors ? "torch.lu_factor" : "linalg.lu",
      ": Expected tensor with 2 or more dimensions. Got size: ", given.sizes(), " instead");
  const auto [made, info] = factorize_unpivoted(given);
  const int64_t rows = given.size(-2), columns = given.size(-1), least = std::min(rows, columns);
  std::vector<Tensor> results;
  if (factors) {
    if (argument(op, stack, 2).toBool()) at::_linalg_check_errors(info, "torch.linalg.lu_factor_ex", given.dim() == 2);
    auto shape = given.sizes().slice(0, static_cast<size_t>(given.dim()) - 2).vec();
    shape.push_back(least);
    const auto whole = given.options().dtype(at::kInt);
    results = {made, at::arange(1, least + 1, whole).expand(shape).contiguous(), info};
  } else {
    Tensor lower = made.narrow(-1, 0, least).tril(-1);
    lower.diagonal(0, -2, -1).fill_(1);
    results = {at::empty({0}, given.options()), lower, made.narrow(-2, 0, least).triu()};
  }
  for (size_t i = 0; i < 3 && arguments.back().is_out(); i++) {
    const Tensor out = argument(op, stack, arguments.size() - 3 + i).toTensor();
    at::native::resize_output(out, results[i].sizes());
    results[i] = out.copy_(results[i]);
  }
  torch::jit::drop(*stack, arguments.size());
  for (auto& result : results) stack->emplace_back(std::move(result));
}

// Check what cuBLASLt requires of 8-bit matrices, in the order of CUDA's checks.
void check_int_mm(const Tensor& a, const Tensor& b, const Tensor& out) {
  TORCH_CHECK(a.dim() == 2, "Expected self to be of dimension 2 but got ", a.dim());
  TORCH_CHECK(b.dim() == 2, "Expected mat2 to be of dimension 2 but got ", b.dim());
  TORCH_CHECK(a.size(0) > 16, "self.size(0) needs to be greater than 16, but got ", a.size(0));
  const auto is_octets = [](int64_t size) { return size > 0 && size % 8 == 0; };
  TORCH_CHECK(is_octets(a.size(1)), "self.size(1) needs to be greater than 0 and a multiple of 8, but got ", a.size(1));
  TORCH_CHECK(
      a.size(1) == b.size(0), "self.size(1) needs to match mat2.size(0) but got ", a.size(1), " and ", b.size(0));
  TORCH_CHECK(is_octets(b.size(1)), "mat2.size(1) needs to be greater than 0 and a multiple of 8, but got ", b.size(1));
  if (out.defined()) {
    TORCH_CHECK(out.dtype() == at::kInt, "Expected result dtype to be of type kInt but got ", out.dtype());
    for (int64_t i : {0, 1}) {
      const int64_t wanted = i == 0 ? a.size(0) : b.size(1);
      TORCH_CHECK(out.size(i) == wanted, "Expected result.size(", i, ") to be ", wanted, " but got ", out.size(i));
    }
    TORCH_CHECK(out.dim() == 2, "Expected result to be of dimension 2 but got ", out.dim());
    TORCH_CHECK(out.is_contiguous(), "Expected result to be contiguous.");
  }
  for (const Tensor& factor : {a, b})
    TORCH_CHECK(
        factor.scalar_type() == at::kChar, "expected scalar type Char but found ", c10::toString(factor.scalar_type()));
}
void int_mm(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const bool has_out = op.schema().arguments().size() > 2;
  check_int_mm(
      argument(op, stack, 0).toTensor(), argument(op, stack, 1).toTensor(),
      has_out ? argument(op, stack, 2).toTensor() : Tensor());
  run_on_cpu(op, c10::DispatchKey::CPU, stack);
}

}  // namespace

void register_linear_algebra(Registrar& registrar) {
  registrar.impl("linalg_eig", TORCH_FN(eig));
  for (const char* name : {"linalg_eigvals.out", "_linalg_eigvals"})
    if (find_aten(name)) registrar.impl(name, &eigvals);
  registrar.impl("cholesky_inverse", TORCH_FN(cholesky_inverse));
  registrar.impl("cholesky_inverse.out", TORCH_FN(cholesky_inverse_out));
  for (const char* name : {"_linalg_svd", "_linalg_svd.U"}) registrar.impl(name, &svd);
  for (const char* name : {"linalg_lu", "linalg_lu.out", "linalg_lu_factor_ex", "linalg_lu_factor_ex.out"})
    registrar.impl(name, &lu);
  for (const char* name : {"linalg_lstsq", "linalg_lstsq.out"}) registrar.impl(name, &lstsq);
  for (const char* name : {"_int_mm", "_int_mm.out"}) registrar.impl(name, &int_mm);
}

}  // namespace hostdevice
