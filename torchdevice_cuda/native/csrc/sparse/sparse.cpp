// Sums of sparse tensors: CUDA concatenates their elements and does not merge those at the same index. Also the types
// of their products.
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/result_type.h>

#include "operators/alias.h"
#include "operators/boxed.h"
#include "operators/composites.h"
#include "operators/types.h"

namespace hostdevice {
namespace {

using at::Tensor;

at::SparseTensorImpl* sparse_impl(const Tensor& t) {
  return static_cast<at::SparseTensorImpl*>(t.unsafeGetTensorImpl());
}

// Whether both can be concatenated. Otherwise the CPU kernel adds, or raises.
bool can_join(const Tensor& self, const Tensor& other) {
  for (const Tensor& t : {self, other})
    if (!is_device_tensor(t) || t.layout() != at::kSparse) return false;
  if (self.device() != other.device()) return false;
  TORCH_CHECK(
      self.sizes() == other.sizes(), "add: expected 'self' and 'other' to have same size, but ", self.sizes(),
      " != ", other.sizes());
  TORCH_CHECK_NOT_IMPLEMENTED(
      at::result_type(self, other) != at::kBool, "\"add_out_sparse_cuda\" not implemented for 'Bool'");
  if (self._nnz() == 0 || other._nnz() == 0) return false;
  TORCH_CHECK(
      self.sparse_dim() == other.sparse_dim(), "add: expected 'self' and 'other' to have same density, but 'self' has ",
      self.sparse_dim(), " sparse dimensions while 'other' has ", other.sparse_dim(), " sparse dimensions");
  return true;
}

Tensor join(const Tensor& self, const Tensor& other, const c10::Scalar& alpha) {
  const auto type = at::result_type(self, other);
  Tensor added = other._values().to(type);
  if (!alpha.equal(1)) added = added.mul(alpha);
  Tensor indices = at::cat({self._indices(), other._indices()}, 1);
  Tensor values = at::cat({self._values().to(type), added});
  Tensor made = at::_sparse_coo_tensor_unsafe(indices, values, self.sizes());
  if (made._nnz() <= made.numel()) return made;
  const Tensor fewer = made.coalesce();
  sparse_impl(made)->set_indices_and_values_unsafe(fewer._indices(), fewer._values());
  return made;
}

Tensor& join_into(Tensor& out, const Tensor& self, const Tensor& other, const c10::Scalar& alpha) {
  Tensor made = join(self, other, alpha);
  if (made.scalar_type() != out.scalar_type()) made = made.coalesce().to(out.scalar_type());
  sparse_impl(out)->raw_resize_(made.sparse_dim(), made.dense_dim(), made.sizes());
  sparse_impl(out)->set_indices_and_values_unsafe(made._indices(), made._values());
  return out;
}

// Arguments of every form: self, other, alpha, and the output, if it is given.
template <int kSign>
void sum(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size(), base = stack->size() - count;
  const auto at = [&](size_t i) -> c10::IValue& { return (*stack)[base + i]; };
  const Tensor self = at(0).toTensor(), other = at(1).toTensor();
  const bool in_place = op.schema().name().back() == '_';
  TORCH_CHECK(
      !other.device().is_cpu() || self.layout() == at::kSparse || !is_device_tensor(self),
      "add: expected 'other' to be a CUDA tensor, but got a CPU tensor");
  TORCH_CHECK(!other.device().is_cpu() || !is_device_tensor(self), "add: expected 'other' to be CUDA, but got CPU");
  const bool has_out = count > 3;
  Tensor out = has_out ? at(3).toTensor() : in_place ? self : Tensor();
  const bool fits = !out.defined() ||
      (is_device_tensor(out) && out.layout() == at::kSparse &&
       c10::canCast(at::result_type(self, other), out.scalar_type()));
  if (!fits || !can_join(self, other)) return run_on_cpu(op, c10::DispatchKey::SparseCPU, stack);
  const c10::Scalar alpha = kSign > 0 ? at(2).toScalar() : -at(2).toScalar();
  Tensor made = out.defined() ? join_into(out, self, other, alpha) : join(self, other, alpha);
  torch::jit::drop(*stack, count);
  stack->emplace_back(std::move(made));
}

// Multiply with a dense matrix: take the types that cuSPARSE takes. The CPU kernel has more, or others.
void product(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const size_t base = stack->size() - op.schema().arguments().size();
  const auto at = [&](size_t i) -> const Tensor& { return (*stack)[base + i].toTensor(); };
  const size_t first = op.schema().name() == "aten::mm" ? 0 : 1;
  const Tensor &sparse = at(first), &dense = at(first + 1);
  const auto type = sparse.scalar_type();
  if (sparse.layout() == at::kSparse && dense.layout() == at::kStrided && is_device_tensor(sparse))
    TORCH_CHECK_NOT_IMPLEMENTED(
        holds(kFloats | kComplex, type) || dense.scalar_type() != type, "\"addmm_sparse_cuda\" not implemented for '",
        c10::toString(type), "'");
  run_on_cpu(op, c10::DispatchKey::SparseCPU, stack);
}

// The CPU kernel does not multiply booleans: multiply them as ones and zeros.
Tensor multiply(const Tensor& self, const Tensor& other) {
  const auto is_truth = [](const Tensor& t) { return t.layout() == at::kSparse && t.scalar_type() == at::kBool; };
  if (is_truth(self) && is_truth(other)) return self.to(at::kByte).mul(other.to(at::kByte)).to(at::kBool);
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::mul", "Tensor");
  torch::jit::Stack stack{self, other};
  run_on_cpu(op, c10::DispatchKey::SparseCPU, &stack);
  return std::move(stack.back()).toTensor();
}

void refuse_sspaddmm(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack*) {
  TORCH_CHECK(false, "NYI: CUDA sspaddmm is not implemented");
}

}  // namespace

void register_sparse_sums() {
  Registrar registrar(kSparse);
  registrar.impl("sspaddmm.out", &refuse_sspaddmm);
  for (const char* name : {"mm", "addmm"}) registrar.impl(name, &product);
  registrar.impl("mul.Tensor", TORCH_FN(multiply));
  Registrar dense(kDense);
  dense.impl("sspaddmm.out", &refuse_sspaddmm);
  for (const char* name : {"add.Tensor", "add_.Tensor", "add.out"}) registrar.impl(name, &sum<1>);
  for (const char* name : {"sub.Tensor", "sub_.Tensor", "sub.out"}) registrar.impl(name, &sum<-1>);
}

}  // namespace hostdevice
