// The tensors among arguments and results of a call.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <optional>

#include "operators/operator_info.h"

namespace hostdevice {

// Call f with every tensor of a result.
template <class F>
void each_result(const c10::IValue& v, F f) {
  if (v.isTensor()) {
    if (v.toTensor().defined()) f(v.toTensor());
  } else if (v.isTensorList()) {
    for (const at::Tensor& t : v.toTensorVector())
      if (t.defined()) f(t);
  } else if (v.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& t : v.toOptionalTensorVector())
      if (t.has_value() && t->defined()) f(*t);
  }
}

// Call f with every tensor of an argument and return the argument with f's results instead.
template <class F>
c10::IValue map_tensors(const c10::IValue& v, Kind kind, F f) {
  if (kind == Kind::Tensor && v.isTensor() && v.toTensor().defined()) return f(v.toTensor());
  if (kind == Kind::TensorList && v.isTensorList()) {
    c10::List<at::Tensor> out;
    for (const at::Tensor& t : v.toTensorVector()) out.push_back(t.defined() ? f(t) : t);
    return out;
  }
  if (kind == Kind::OptionalTensorList && v.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> out;
    for (const std::optional<at::Tensor>& t : v.toOptionalTensorVector())
      out.push_back(t.has_value() && t->defined() ? std::optional<at::Tensor>(f(*t)) : t);
    return out;
  }
  return v;
}

}  // namespace hostdevice
