// Which kernel answers for which operator.
//
// Kernels of an operator's own go in first and claim it; the boxed kernel then takes what is left.
#pragma once

#include <ATen/core/op_registration/infer_schema.h>
#include <c10/core/DispatchKey.h>
#include <torch/library.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "operators/recorded.h"
#include "runtime/device.h"

namespace hostdevice {

// The namespace of PyTorch's own operators.
inline constexpr std::string_view kAten = "aten::";

// An operator as the tables here call it: "add.Tensor", without the namespace; empty if it is not one of PyTorch's own.
std::string aten_name(const std::string& name, const std::string& overload);

// Operators that have a kernel of their own at a key, so that the boxed one stays away. Only install() writes, in one
// thread, so there is no lock.
void claim(c10::DispatchKey key, const std::string& name);
bool is_claimed(c10::DispatchKey key, const std::string& name);

// Whether Python wrote a kernel, named "space/operator.overload/CPU"; set once, before anything asks.
extern std::function<bool(const std::string&)> g_is_written;

// Whether this version of PyTorch has the operator, with just these arguments and results.
bool has_signature(const char* name, const c10::FunctionSchema& signature);

// An operator of PyTorch's own by the name that tables have, where this version has it.
std::optional<c10::OperatorHandle> find_aten(const char* name);

// The device's key for one of the CPU's: CUDA for CPU, SparseCUDA for SparseCPU ...
c10::DispatchKey device_key(c10::DispatchKey cpu);

// Registers kernels at a key and claims their operators, for as long as the process lives.
class Registrar {
 public:
  explicit Registrar(c10::DispatchKey key, const char* file = __builtin_FILE(), uint32_t line = __builtin_LINE())
      : key_(key), library_(new torch::Library(torch::Library::IMPL, "aten", key, file, line)) {}

  template <class F>
  void impl(const char* name, F&& kernel) {
    library_->impl(name, std::forward<F>(kernel));
    claim(key_, name);
  }
  // What computes on the device is recorded while a graph is captured. A boxed kernel is made of calls that are.
  template <bool kComparesItself = false, class Function, Function* kFunction>
  void impl(const char* name, c10::CompileTimeFunctionPointer<Function, kFunction> kernel) {
    using F = c10::CompileTimeFunctionPointer<Function, kFunction>;
    const auto op = kIsCuda && (key_ == kDense || key_ == kQuantized) ? find_aten(name) : std::nullopt;
    if (op.has_value())
      library_->impl(name, Recorded<F, kComparesItself>{*op, key_});
    else
      library_->impl(name, kernel);
    claim(key_, name);
  }
  // What computes nothing: it makes tensors, or views of them, on the host.
  template <class F>
  void on_host(const char* name, F kernel) {
    library_->impl(name, kernel);
    claim(key_, name);
  }

  // For operators that come, go and change from one version to the next: elsewhere the boxed kernel takes them.
  template <class F>
  void impl_where_known(const char* name, F kernel) {
    if (has_signature(name, c10::inferFunctionSchemaFlattenedReturns<typename F::FuncType>())) impl(name, kernel);
  }

 private:
  c10::DispatchKey key_;
  torch::Library* library_;  // never deleted: that would take the kernels back
};

}  // namespace hostdevice
