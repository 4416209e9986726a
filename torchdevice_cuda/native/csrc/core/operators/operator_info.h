// Operator metadata, computed once from the schema and PyTorch's tables.
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

struct ArgumentInfo {
  Kind kind = Kind::Other;
  bool written = false;
  bool changed = false;  // its elements change, whether or not the schema says so
};

struct OperatorInfo {
  const Row* row = nullptr;  // never null after make_operator_info()
  std::string name;          // as in rows; empty outside of aten
  std::vector<ArgumentInfo> args;
  std::vector<uint16_t> interesting;  // positions whose kind is not Other
  std::vector<uint16_t> check_order;  // outputs first, then the positional tensors
  size_t returns = 0;
  bool tensor_returns = false;
  bool writes = false;
  bool is_view = false;  // returns a view of an argument: computed on the device tensors themselves
  bool device_check = false;
  bool iterates = false;       // compares devices itself, on every device
  bool is_composite = false;   // calls other operators; runs as a whole only to avoid their overhead
  bool calls_parts = false;    // CUDA's kernel calls the operators that the CPU's calls
  bool mixes_devices = false;  // takes tensors on several devices by design
  bool is_indexing = false;    // index tensors may be on the CPU
  bool is_seeded = false;      // draws random numbers without a generator argument
  bool keep_alive = false;
  bool only_calls_cpu_kernel = false;  // only the CPU kernel computes, for types that are not special
  bool asks_grad = false;              // computes less when no argument requires a gradient
  bool asserts = false;                // CUDA's kernel asserts on elements that the CPU's refuses
  bool divides_integers = false;       // divides by its second argument, where an integer zero is no error on a GPU
  bool reads_back = false;             // returns a value to the host, so it waits for the stream
  bool launches = false;               // does work on the device
  bool only_reads = false;             // that work is a copy of a value to the host
  bool has_alerts = false;             // one of the next two is set
  const Waiting* waiting = nullptr;
  const Nondeterministic* nondeterministic = nullptr;
  bool takes_any_type = true;  // has a kernel for every type that a tensor can have
  std::vector<const Limit*> limits;
  Types special = 0;  // argument types for which more than the CPU kernel computes
  Types widened = 0;
  Types exclusive = 0;           // types of which it does not take several at once
  uint32_t contiguous = 0;       // arguments that the CPU kernel reads as contiguous, as bits by position
  std::vector<uint16_t> dtypes;  // positions of dtype arguments
  std::string method;
};

Kind kind_of(const c10::TypePtr& type);
std::unique_ptr<OperatorInfo> make_operator_info(const c10::OperatorHandle& op);

// Call f with every tensor of an argument of this kind.
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
