// Which kernel answers for which operator.
//
// Kernels of an operator's own go in first and claim it; the boxed kernel then takes what is left.
#pragma once

#include <ATen/core/boxing/BoxedKernel.h>
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
void claim(c10::DispatchKey key, const std::string& name, bool computes_as_cpu = false);
bool is_claimed(c10::DispatchKey key, const std::string& name);
// Whether that kernel is more than a quick way to the CPU's.
bool computes_otherwise(c10::DispatchKey key, const std::string& name);

// Whether Python wrote a kernel, named "space/operator.overload/CPU"; set once, before anything asks.
extern std::function<bool(const std::string&)> g_is_written;

// Whether this version of PyTorch has the operator, with just these arguments and results.
bool has_signature(const char* name, const c10::FunctionSchema& signature);

// An operator of PyTorch's own by the name that tables have, where this version has it.
std::optional<c10::OperatorHandle> find_aten(const char* name);
// By its full name, "aten::add.Tensor".
std::optional<c10::OperatorHandle> find_operator(const std::string& name);

// The device's key for one of the CPU's: CUDA for CPU, SparseCUDA for SparseCPU ...
c10::DispatchKey device_key(c10::DispatchKey cpu);

// A kernel that takes its arguments from a stack, and leaves its results there.
using Boxed = void (*)(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// A function as such a kernel.
template <class F>
void call_by_stack(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  using Functor = typename c10::impl::WrapFunctionIntoFunctor<F>::type;
  static Functor kernel;
  c10::impl::make_boxed_from_unboxed_functor<Functor, false>::call(&kernel, op, keys, stack);
}

// Registers kernels at a key and claims their operators, for as long as the process lives.
//
// Functions are called by stack: compiling each takes half of what a typed kernel does, and no call was seen to take
// longer. Those that programs call most are typed.
class Registrar {
 public:
  explicit Registrar(c10::DispatchKey key, const char* space = "aten") : key_(key), space_(space) {}

  // What computes on the device is recorded while a graph is captured.
  template <class Function, Function* kFunction>
  void impl(const char* name, c10::CompileTimeFunctionPointer<Function, kFunction>) {
    using F = c10::CompileTimeFunctionPointer<Function, kFunction>;
    add(name, &call_by_stack<F>, count_arguments<Function>(), is_recorded());
  }
  // A boxed kernel is made of calls that are recorded.
  void impl(const char* name, Boxed kernel);
  // What computes nothing: it makes tensors, or views of them, on the host.
  template <class Function, Function* kFunction>
  void on_host(const char* name, c10::CompileTimeFunctionPointer<Function, kFunction>) {
    using F = c10::CompileTimeFunctionPointer<Function, kFunction>;
    add(name, &call_by_stack<F>, count_arguments<Function>(), false);
  }

  // A direct one calls the CPU's kernel, and compares devices itself.
  template <bool kDirect = false, class Function, Function* kFunction>
  void impl_typed(const char* name, c10::CompileTimeFunctionPointer<Function, kFunction> kernel) {
    using F = c10::CompileTimeFunctionPointer<Function, kFunction>;
    const auto op = is_recorded() ? find_aten(name) : std::nullopt;
    if (op.has_value())
      library().impl(name, Recorded<F, kDirect>{*op, key_});
    else
      library().impl(name, kernel);
    claim(key_, name, kDirect);
  }
  template <class F>
  void on_host_typed(const char* name, F kernel) {
    library().impl(name, kernel);
    claim(key_, name);
  }

  // For operators that come, go and change from one version to the next: elsewhere the boxed kernel takes them.
  template <class F>
  void impl_where_known(const char* name, F kernel) {
    if (has_signature(name, c10::inferFunctionSchemaFlattenedReturns<typename F::FuncType>())) impl(name, kernel);
  }

 private:
  template <class Function>
  static constexpr size_t count_arguments() {
    return c10::guts::infer_function_traits_t<Function>::number_of_parameters;
  }
  bool is_recorded() const {
    return kIsCuda && (key_ == kDense || key_ == kQuantized);
  }
  torch::Library& library();
  void add(const char* name, Boxed kernel, size_t arguments, bool recorded);
  // In its stand-in's place, where it is of a part; else it is registered.
  void put(const char* name, const c10::BoxedKernel& kernel);

  c10::DispatchKey key_;
  const char* space_;
  torch::Library* library_ = nullptr;  // never deleted: that would take the kernels back
};

// What computes an operator that has no kernel of its own after all: the CPU's, or nothing does.
void run_without_own_kernel(const c10::OperatorHandle& op, c10::DispatchKey key, torch::jit::Stack* stack);

}  // namespace hostdevice
