// What a call needs to know about its operator, worked out once from its schema and PyTorch's tables.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "operators/alerts.h"
#include "operators/dtypes.h"
#include "operators/launches.h"
#include "operators/refusals.h"
#include "operators/rows.h"
#include "operators/widening.h"

namespace c10 {
class OperatorHandle;
}

namespace hostdevice {

enum class Kind : uint8_t { Other, Tensor, TensorList, OptionalTensorList, Device, Generator, Storage };

inline bool holds_tensors(Kind kind) {
  return kind == Kind::Tensor || kind == Kind::TensorList || kind == Kind::OptionalTensorList;
}

struct ArgFact {
  Kind kind = Kind::Other;
  bool written = false;
  bool changed = false;  // its elements are, whether the schema says so or not
};

struct Facts {
  const Row* row = nullptr;  // never null when made
  std::string name;          // as rows have it; empty if it is not one of PyTorch's own
  std::vector<ArgFact> args;
  std::vector<uint16_t> interesting;  // positions whose kind is not Other
  std::vector<uint16_t> check_order;  // outputs first, then the positional tensors
  size_t returns = 0;
  bool tensor_returns = false;
  bool writes = false;
  bool view = false;  // returns a view of an argument: made on the device tensors themselves
  bool device_check = false;
  bool iterates = false;   // compares devices by itself, on whatever device it runs
  bool composite = false;  // made of other operators; run whole only to spare their overhead
  bool mixes = false;      // takes tensors of several devices by design
  bool indexing = false;   // index tensors may live on the CPU
  bool seeded = false;     // draws random numbers without being given a generator
  bool keep_alive = false;
  bool straight = false;    // nothing but the CPU's kernel computes, of the types that are not special
  bool asks_grad = false;   // does less when no argument requires a gradient
  bool asserts = false;     // CUDA's kernel does, of elements that the CPU's refuses
  bool divides = false;     // by its second argument, where an integer zero is no error on a GPU
  bool reads_back = false;  // hands a value to the host, so waits for the stream
  bool launches = false;    // has the device do something
  bool only_reads = false;  // and that is a copy of a value for the host
  bool tells = false;       // one of the next two
  const Waiting* waiting = nullptr;
  const Nondeterministic* nondeterministic = nullptr;
  bool any_type = true;  // has a kernel for whatever type a tensor can have
  std::vector<const Limit*> limits;
  Types special = 0;  // types of arguments with which it is not simply the CPU's kernel that computes
  Types widened = 0;
  Types exclusive = 0;           // types of which it does not take several
  uint32_t contiguous = 0;       // arguments that the CPU's kernel reads as if they were, as bits by position
  std::vector<uint16_t> dtypes;  // positions of arguments that are types
  std::string method;
};

Kind kind_of(const c10::TypePtr& type);
std::unique_ptr<Facts> make_facts(const c10::OperatorHandle& op);

// Calls f with every tensor of an argument of this kind.
template <class F>
void each_tensor(const c10::IValue& v, Kind kind, F f) {
  if (kind == Kind::Tensor) {
    if (v.isTensor() && v.toTensor().defined()) f(v.toTensor());
  } else if (kind == Kind::TensorList) {
    if (!v.isTensorList()) return;
    const auto list = v.toTensorList();
    for (size_t k = 0; k < list.size(); k++) {
      const at::Tensor t = list.get(k);
      if (t.defined()) f(t);
    }
  } else if (kind == Kind::OptionalTensorList) {
    if (!v.isOptionalTensorList()) return;
    const auto list = v.toOptionalTensorList();
    for (size_t k = 0; k < list.size(); k++) {
      const std::optional<at::Tensor> t = list.get(k);
      if (t.has_value() && t->defined()) f(*t);
    }
  }
}

}  // namespace hostdevice
