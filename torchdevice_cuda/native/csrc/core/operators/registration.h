// Registration of kernels for operators.
//
// Dedicated kernels are registered first and claim their operators; the boxed kernel takes the rest.
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

// Return an operator's name as in the tables here: "add.Tensor", without the namespace; empty outside of aten.
std::string aten_name(const std::string& name, const std::string& overload);

// Note that an operator has its own kernel at a key, so that the boxed kernel skips it. Only install() writes, in one
// thread, so there is no lock.
void claim(c10::DispatchKey key, const std::string& name, bool computes_as_cpu = false);
bool is_claimed(c10::DispatchKey key, const std::string& name);
// Whether that kernel does more than call the CPU kernel faster.
bool computes_otherwise(c10::DispatchKey key, const std::string& name);

// Whether a kernel, named "space/operator.overload/CPU", was written in Python; set once, before the first call.
extern std::function<bool(const std::string&)> g_is_python_kernel;

// Whether this version of PyTorch has the operator with exactly these arguments and results.
bool has_signature(const char* name, const c10::FunctionSchema& signature);

// Find an aten operator by its name in tables; none if this version of PyTorch lacks it.
std::optional<c10::OperatorHandle> find_aten(const char* name);
// Find an operator by its full name, "aten::add.Tensor".
std::optional<c10::OperatorHandle> find_operator(const std::string& name);

// Return the device's key for a CPU key: CUDA for CPU, SparseCUDA for SparseCPU ...
c10::DispatchKey device_key(c10::DispatchKey cpu);

// A kernel that takes its arguments from a stack, and leaves its results there.
using Boxed = void (*)(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// Call a function as a boxed kernel.
template <class F>
void call_by_stack(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  using Functor = typename c10::impl::WrapFunctionIntoFunctor<F>::type;
  static Functor kernel;
  c10::impl::make_boxed_from_unboxed_functor<Functor, false>::call(&kernel, op, keys, stack);
}

// Registers kernels at a key and claims their operators, until the process ends.
//
// Functions are called by stack: compiling each takes half the time of a typed kernel, and no call was seen to take
// longer. The functions that programs call most are typed.
class Registrar {
 public:
  explicit Registrar(c10::DispatchKey key, const char* space = "aten") : key_(key), space_(space) {}

  // Register a function that computes on the device; a graph capture records its calls.
  template <class Function, Function* kFunction>
  void impl(const char* name, c10::CompileTimeFunctionPointer<Function, kFunction>) {
    using F = c10::CompileTimeFunctionPointer<Function, kFunction>;
    add(name, &call_by_stack<F>, count_arguments<Function>(), is_recorded());
  }
  // Register a boxed kernel, whose own calls are recorded.
  void impl(const char* name, Boxed kernel);
  // Register a function that computes nothing: it creates tensors or views on the host.
  template <class Function, Function* kFunction>
  void on_host(const char* name, c10::CompileTimeFunctionPointer<Function, kFunction>) {
    using F = c10::CompileTimeFunctionPointer<Function, kFunction>;
    add(name, &call_by_stack<F>, count_arguments<Function>(), false);
  }

  // kDirect: the function calls the CPU kernel and compares devices itself.
  template <bool kDirect = false, class Function, Function* kFunction>
  void impl_typed(const char* name, c10::CompileTimeFunctionPointer<Function, kFunction> kernel) {
    using F = c10::CompileTimeFunctionPointer<Function, kFunction>;
    const auto op = is_recorded() ? find_aten(name) : std::nullopt;
    if (op.has_value())
      library().impl(name, Recorded<F, kDirect>{*op, key_, calls_parts(op->schema().name())});
    else
      library().impl(name, kernel);
    claim(key_, name, kDirect);
  }
  template <class F>
  void on_host_typed(const char* name, F kernel) {
    library().impl(name, kernel);
    claim(key_, name);
  }

  // For operators whose signature differs between versions of PyTorch: the boxed kernel takes the others.
  template <class F>
  void impl_where_known(const char* name, F kernel) {
    if (has_signature(name, c10::inferFunctionSchemaFlattenedReturns<typename F::FuncType>())) impl(name, kernel);
  }

 private:
  template <class Function>
  static constexpr size_t count_arguments() {
    return c10::guts::infer_function_traits_t<Function>::number_of_parameters;
  }
  static bool calls_parts(const std::string& operator_name);
  bool is_recorded() const {
    return kIsCuda && (key_ == kDense || key_ == kQuantized);
  }
  torch::Library& library();
  void add(const char* name, Boxed kernel, size_t arguments, bool recorded);
  // Fill the operator's stand-in if it belongs to a part; otherwise register the kernel.
  void set_or_register(const char* name, const c10::BoxedKernel& kernel);

  c10::DispatchKey key_;
  const char* space_;
  torch::Library* library_ = nullptr;  // never deleted: that would unregister the kernels
};

// Run an operator that has no kernel of its own after all: call the CPU kernel, or throw if there is none.
void run_without_own_kernel(const c10::OperatorHandle& op, c10::DispatchKey key, torch::jit::Stack* stack);

}  // namespace hostdevice
