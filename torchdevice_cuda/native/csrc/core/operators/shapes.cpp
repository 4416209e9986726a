#include "operators/shapes.h"

#include <ATen/ops/empty_strided.h>

#include <vector>

#include "operators/operator_info.h"
#include "operators/tensors.h"

namespace hostdevice {
namespace {

at::Tensor make_empty_like(const at::Tensor& t, c10::Device where) {
  return at::empty_strided(t.sizes(), t.strides(), at::TensorOptions(where).dtype(t.dtype()));
}

}  // namespace

MetaCall call_meta_kernel(const c10::OperatorHandle& op, const OperatorInfo& f, c10::ArrayRef<c10::IValue> arguments) {
  const c10::Device meta(c10::DeviceType::Meta);
  MetaCall call;
  for (size_t i = 0; i < arguments.size(); i++) {
    if (f.args[i].kind == Kind::Device && arguments[i].isDevice()) {
      call.results.emplace_back(meta);
      continue;
    }
    call.results.push_back(map_tensors(arguments[i], f.args[i].kind, [&](const at::Tensor& t) {
      // A number of Python's has no shape to pass; meta kernels take it as it is.
      if (t.is_cpu() && t.unsafeGetTensorImpl()->is_wrapped_number()) return t;
      at::Tensor shape = make_empty_like(t, meta);
      call.tensors.emplace_back(shape, t);
      return shape;
    }));
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &call.results);
  return call;
}

torch::jit::Stack make_results_by_shape(
    const c10::OperatorHandle& op, const OperatorInfo& f, c10::ArrayRef<c10::IValue> arguments,
    c10::DeviceIndex index) {
  MetaCall call = call_meta_kernel(op, f, arguments);
  const auto made = [&](const at::Tensor& t) {
    for (const auto& [shape, argument] : call.tensors)
      if (shape.is_same(t)) return argument;
    return make_empty_like(t, device(index));
  };
  for (auto& v : call.results) v = map_tensors(v, v.isTensor() ? Kind::Tensor : Kind::TensorList, made);
  return std::move(call.results);
}

}  // namespace hostdevice
