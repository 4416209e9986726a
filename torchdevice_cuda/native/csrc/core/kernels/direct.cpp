// The operators that programs call most, without the boxed kernel's stack: alias, redispatch, adopt, all typed.
//
// Only the plain case is here (strided tensors of a usual type on one device, or a CPU scalar beside one). All others
// go to the boxed kernel, which has the rules and the error messages.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/clone_ops.h>
#include <ATen/ops/fill_ops.h>
#include <ATen/ops/mm_ops.h>
#include <ATen/ops/relu_ops.h>
#include <ATen/ops/sum_ops.h>
#include <ATen/ops/zero_ops.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <type_traits>

#include "kernels/loops.h"
#include "operators/alias.h"
#include "operators/boxed.h"
#include "operators/install.h"
#include "operators/reductions.h"
#include "operators/registration.h"
#include "operators/types.h"
#include "runtime/activities.h"
#include "runtime/allocator.h"
#include "runtime/device.h"

namespace hostdevice {
namespace {

using at::Tensor;

// Types without special rules for these operators: the CPU kernel computes as CUDA's does.
constexpr Types kMultiplied = kFloats | kComplex;
constexpr Types kUsual = kMultiplied | kHalves | kIntegers | kBool;

// Checks that the arguments are strided tensors on one device.
struct ArgumentScan {
  c10::DeviceIndex index = -1;
  bool plain = true;
  bool allows_cpu_scalars;
  bool has_cpu_scalars = false;
  bool single = false, scaled = false;  // a tensor without dimensions; a factor
  Types types = 0;

  void operator()(const Tensor& t) {
    types |= types_of(t.scalar_type());
    single = single || t.dim() == 0;
    const auto d = t.device();
    if (C10_LIKELY(d.type() == kType)) {
      const auto keys = t.key_set();
      plain = plain && (index < 0 || index == d.index()) && t.layout() == at::kStrided &&
          !keys.has_any(c10::DispatchKeySet({c10::DispatchKey::Quantized, c10::DispatchKey::NestedTensor}));
      index = d.index();
    } else {
      plain = plain && allows_cpu_scalars && d.is_cpu() && t.dim() == 0;
      has_cpu_scalars = true;
    }
  }
  void operator()(const at::Scalar& factor) {
    scaled = scaled || !factor.equal(1);
  }
  template <class T>
  void operator()(const T&) {}
};

template <class T>
T&& pass(Aliases&, T&& value) {
  return std::forward<T>(value);
}
inline Tensor pass(Aliases& aliases, const Tensor& t) {
  return aliases.to_cpu(t, false);
}
inline Tensor pass(Aliases& aliases, Tensor& t) {
  return aliases.to_cpu(t, false);
}

template <class Op, bool kAllowsCpuScalars, Types kTypes, class Signature = typename Op::schema>
struct Direct;

template <class Op, bool kAllowsCpuScalars, Types kTypes, class R, class... A>
struct Direct<Op, kAllowsCpuScalars, kTypes, R(A...)> {
  static constexpr bool kInPlace = std::is_same_v<R, Tensor&>;

  static R call(A... a) {
    ArgumentScan scan{-1, true, kAllowsCpuScalars};
    (scan(a), ...);
    if constexpr (kInPlace) scan.plain = scan.plain && is_device_tensor(first(a...));
    // The boxed kernel refuses factors of several types.
    const bool several = kTypes == kMultiplied && (scan.types & (scan.types - 1)) != 0;
    // CUDA does not round a scalar to half precision before it computes.
    const bool beside = kAllowsCpuScalars && (scan.types & kHalves) != 0 && (scan.single || scan.scaled);
    if (C10_UNLIKELY(!scan.plain || scan.index < 0 || (scan.types & ~kTypes) != 0 || several || beside))
      return boxed(a...);
    check_fork();
    if constexpr (Loop<Op>::kExists) {
      if (C10_LIKELY((scan.types & ~kFloats) == 0 && !scan.has_cpu_scalars && !scan.scaled && fits_loop(a...)))
        return loop(a...);
    }
    if constexpr (std::is_same_v<Op, at::_ops::sum_dim_IntList>) {
      if (auto sum = reduce_in_order(a..., {kSum})) return *std::move(sum);
    }
    static const c10::DispatchKeySet excluded =
        c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;
    const c10::impl::ExcludeDispatchKeyGuard below(excluded);
    Aliases aliases(scan.index);
    if constexpr (kInPlace) materialize(first(a...));
    aliases.keep_lazy();
    if constexpr (kInPlace) {
      const AllocateOnDevice here(scan.index, scan.has_cpu_scalars);
      in_place(aliases, a...);
      return first(a...);
    } else {
      Tensor result;
      {
        const AllocateOnDevice here(scan.index, scan.has_cpu_scalars);
        result = Op::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), pass(aliases, a)...);
      }
      if constexpr (std::is_same_v<Op, at::_ops::clone>)
        if (is_profiled() && result.strides() == first(a...).strides())
          DeviceWork::mark_copy(copy_name(false, false, false), static_cast<int64_t>(result.nbytes()));
      return aliases.to_device(std::move(result));
    }
  }

 private:
  template <class T, class... Rest>
  static T& first(T& t, Rest&...) {
    return t;
  }
  template <class... Rest>
  static void in_place(Aliases& aliases, Tensor& self, Rest&... rest) {
    Tensor alias = aliases.to_cpu(self, false);
    Op::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), alias, pass(aliases, rest)...);
  }
  template <class... Factor>
  static bool fits_loop(const Tensor& self, const Tensor& other, const Factor&...) {
    return is_loop_pair(self, other) && (!kInPlace || is_same_or_apart(self, other));
  }
  template <class Self, class... Factor>
  static R loop(Self& self, const Tensor& other, const Factor&...) {
    if constexpr (kInPlace) {
      run_loop_into<Op>(self, self, other);
      return self;
    } else {
      return run_loop<Op>(self, other);
    }
  }
  static R boxed(A... a) {
    static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(Op::name, Op::overload_name);
    torch::jit::Stack stack;
    (stack.emplace_back(a), ...);
    run_on_cpu(op, c10::DispatchKey::CPU, &stack);
    if constexpr (kInPlace)
      return first(a...);
    else
      return std::move(stack.back()).toTensor();
  }
};

}  // namespace

void register_hot_kernels() {
  if (!kIsCuda) return;
  Registrar registrar(kDense);
#define HOSTDEVICE_DIRECT(name, op, has_cpu_scalars, types) \
  registrar.impl_typed<true>(name, TORCH_FN((&Direct<at::_ops::op, has_cpu_scalars, types>::call)))
  HOSTDEVICE_DIRECT("add.Tensor", add_Tensor, true, kUsual);
  HOSTDEVICE_DIRECT("sub.Tensor", sub_Tensor, true, kUsual);
  HOSTDEVICE_DIRECT("mul.Tensor", mul_Tensor, true, kUsual);
  HOSTDEVICE_DIRECT("div.Tensor", div_Tensor, true, kUsual);
  HOSTDEVICE_DIRECT("add_.Tensor", add__Tensor, true, kUsual);
  HOSTDEVICE_DIRECT("mul_.Tensor", mul__Tensor, true, kUsual);
  HOSTDEVICE_DIRECT("relu", relu, true, kUsual);
  HOSTDEVICE_DIRECT("mm", mm, false, kMultiplied);
  HOSTDEVICE_DIRECT("bmm", bmm, false, kMultiplied);
  HOSTDEVICE_DIRECT("addmm", addmm, false, kMultiplied);
  HOSTDEVICE_DIRECT("clone", clone, false, kUsual);
  HOSTDEVICE_DIRECT("fill_.Scalar", fill__Scalar, false, kUsual);
  HOSTDEVICE_DIRECT("zero_", zero_, false, kUsual);
#undef HOSTDEVICE_DIRECT
  // Adds in another order than the CPU's kernel, which must not replace it in graphs.
  registrar.impl_typed("sum.dim_IntList", TORCH_FN((&Direct<at::_ops::sum_dim_IntList, false, kUsual>::call)));
}

}  // namespace hostdevice
