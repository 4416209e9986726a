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

torch::jit::Stack make_results_by_shape(
    const c10::OperatorHandle& op, const OperatorInfo& f, c10::ArrayRef<c10::IValue> arguments,
    c10::DeviceIndex index) {
  const c10::Device meta(c10::DeviceType::Meta);
  std::vector<std::pair<at::Tensor, at::Tensor>> known;  // meta tensors and the arguments that they replace
  torch::jit::Stack stack;
  for (size_t i = 0; i < arguments.size(); i++) {
    if (f.args[i].kind == Kind::Device && arguments[i].isDevice()) {
      stack.emplace_back(meta);
      continue;
    }
    stack.push_back(map_tensors(arguments[i], f.args[i].kind, [&](const at::Tensor& t) {
      known.emplace_back(make_empty_like(t, meta), t);
      return known.back().first;
    }));
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
  const auto made = [&](const at::Tensor& t) {
    for (const auto& [shape, argument] : known)
      if (shape.is_same(t)) return argument;
    return make_empty_like(t, device(index));
  };
  for (auto& v : stack) v = map_tensors(v, v.isTensor() ? Kind::Tensor : Kind::TensorList, made);
  return stack;
}

}  // namespace hostdevice
