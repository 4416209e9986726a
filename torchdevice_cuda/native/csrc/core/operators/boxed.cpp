#include "operators/boxed.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TracerMode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ScopeExit.h>
#include <torch/library.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>

#include "operators/alerts.h"
#include "operators/alias.h"
#include "operators/assertions.h"
#include "operators/device_check.h"
#include "operators/dtypes.h"
#include "operators/kernel_names.h"
#include "operators/operator_info.h"
#include "operators/recorded.h"
#include "operators/refusals.h"
#include "operators/registration.h"
#include "runtime/activities.h"
#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/failure.h"
#include "runtime/generator.h"
#include "runtime/interpreter.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;
using torch::jit::Stack;

// Random kernels without a generator argument draw from the CPU's default generator: give it the device's seed for the
// call.
void redispatch_seeded(const c10::OperatorHandle& op, DispatchKey target, Stack* stack, c10::DeviceIndex index) {
  // The kernel allocates, which may call Python (history.h, limits.h). So a thread that waits here has released the
  // GIL, and the lock is recursive, because that Python code may call this function.
  const WithoutInterpreter released;
  static std::recursive_mutex mutex;
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  auto generator = at::detail::getDefaultCPUGenerator();
  at::Tensor saved;
  {
    // Lock the generator: CPU kernels of other threads draw from it. Its state is host memory, so no device runs out of
    // memory here.
    const AllocateOnDevice host(-1);
    const std::lock_guard<std::mutex> drawing(generator.mutex());
    saved = generator.get_state();
    generator.set_current_seed(next_seed(at::Generator(), index, 1));
  }
  const auto restore = c10::make_scope_exit([&] {
    const std::lock_guard<std::mutex> drawing(generator.mutex());
    generator.set_state(saved);
  });
  op.redispatchBoxed(DispatchKeySet(target), stack);
}

const DispatchKeySet& get_excluded_keys() {
  static const DispatchKeySet keys = c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;
  return keys;
}

// The CPU raises on an integer division by zero; a GPU returns an unspecified value. Here it is the result of dividing
// by one.
C10_NOINLINE void divide_by_one_for_zero(Stack& stack, size_t base) {
  const auto integral = [](const IValue& v) {
    return v.isTensor() ? at::isIntegralType(v.toTensor().scalar_type(), true) : v.isInt() || v.isBool();
  };
  IValue& by = stack[base + 1];
  if (!integral(stack[base]) || !integral(by)) return;
  // The third argument is a rounding mode, where None means true division, or an out= tensor.
  const bool has_mode = stack.size() - base > 2 && !stack[base + 2].isTensor();
  if (has_mode && stack[base + 2].isNone()) return;
  if (!by.isTensor()) {
    if (by.toScalar().toLong() == 0) by = c10::Scalar(int64_t{1});
    return;
  }
  const at::Tensor zero = by.toTensor().eq(0);
  if (zero.any().item<bool>()) by = by.toTensor().masked_fill(zero, 1);
}

C10_NOINLINE void check_type(const OperatorInfo& f, c10::ScalarType type, bool first) {
  check_computable(type);
  for (const auto* limit : f.limits) TORCH_CHECK(!(first && holds(limit->refused, type)), limit->message);
}

// Handle dtypes for which CUDA does more than the CPU kernel: it has no kernel, or computes in a wider type.
C10_NOINLINE void handle_special_types(
    std::optional<Widening>& wide, const OperatorInfo& f, Types types, Stack& stack, size_t base,
    c10::DeviceIndex index) {
  if (f.row->mixed_types) f.row->mixed_types(stack, base);
  check_dtype(*f.row, stack, base);
  // With several types the CPU kernel does what CUDA's does: promote or raise.
  if (!(types & f.widened) || (!f.row->wide.mixes() && are_mixed(stack, base))) return;
  size_t inputs = f.args.size();
  while (inputs > 1 && f.args[inputs - 1].written) inputs--;  // outputs come last
  wide.emplace(*f.row, index);
  if (!wide->examine(stack, base, inputs, f.dtypes)) wide.reset();
}

// Round results that were computed in a wider type to the expected one.
C10_NOINLINE void round_results(Widening& wide, const OperatorInfo& f, Stack& stack) {
  wide.write_back();
  const size_t base = stack.size() - f.returns;
  for (size_t i = 0; i < f.returns; i++) {
    IValue& v = stack[base + i];
    if (v.isTensor()) {
      v = wide.result(std::move(v).toTensor(), i);
    } else if (v.isTensorList()) {
      auto list = std::move(v).toTensorList();
      for (size_t k = 0; k < list.size(); k++) list.set(k, wide.result(list.extract(k), i));
      v = std::move(list);
    }
  }
}

C10_NOINLINE void begin_launch(
    DeviceWork& launch, const c10::OperatorHandle& op, const OperatorInfo& f, const Stack& stack, size_t base,
    c10::DeviceIndex index, bool is_awaited, const char* kernel) {
  if (DeviceWork::is_in_progress()) kernel = nullptr;  // part of that kernel
  launch.begin(op.schema().name(), index);
  if (kernel) DeviceWork::mark_kernel(op.schema().name(), kernel);
  if (f.only_reads && stack[base].isTensor())
    DeviceWork::mark_copy(
        copy_name(false, true, /*pinned=*/true), static_cast<int64_t>(stack[base].toTensor().itemsize()));
  if (is_awaited) DeviceWork::mark_awaited();
}

void run(const c10::OperatorHandle& op, const OperatorInfo& f, DispatchKey target, Stack* stack) {
  check_fork();
  if (kIsCuda && is_intercepted() && !f.is_view) {
    g_record(op, DispatchKeySet(device_key(target)), stack);
    return;
  }
  const size_t base = stack->size() - f.args.size();

  // Find the device of the call, and whether it is a single one.
  c10::DeviceIndex index = -1, home = -1;
  bool any_cpu = false, several = false, returns_host_tensors = false;
  int64_t count = -1;
  Types types = 0;
  const auto look = [&](const at::Tensor& t) {
    types |= types_of(t.scalar_type());
    const auto d = t.device();
    if (C10_LIKELY(d.type() == kType)) {
      if (index < 0)
        index = d.index();
      else if (d.index() != index)
        several = true;
    } else {
      any_cpu = true;
    }
  };
  for (auto i : f.interesting) {
    const IValue& v = (*stack)[base + i];
    if (C10_LIKELY(f.args[i].kind == Kind::Tensor)) {
      if (v.isTensor() && v.toTensor().defined()) look(v.toTensor());
      if (f.args[i].changed) materialize(v);
    } else if (f.args[i].kind == Kind::Device) {
      if (!v.isDevice()) continue;
      returns_host_tensors = v.toDevice().type() != kType;
      if (!returns_host_tensors) home = resolve(v.toDevice().index());
    } else {
      each_tensor(v, f.args[i].kind, look);
      if (f.args[i].changed) materialize(v);
    }
  }
  if (C10_UNLIKELY(several || (any_cpu && index >= 0))) {
    if (f.is_composite && target == DispatchKey::CPU) {
      // The operators that it calls check their devices, and raise in their own name.
      op.redispatchBoxed(DispatchKeySet(target), stack);
      return;
    }
    check_devices(op, f, *stack, base, target == DispatchKey::SparseCPU);
  }
  if (f.is_composite && C10_UNLIKELY(at::tracer::impl::is_dispatch_enabled())) {
    // torch.jit.trace records the operators that it calls, which must get the traced tensors.
    op.redispatchBoxed(DispatchKeySet(target), stack);
    return;
  }
  const bool only_cpu = any_cpu && index < 0;
  // A device argument determines the results' device, whatever the other arguments' is.
  if (home >= 0) index = home;
  if (index < 0) index = t_current_device;

  const c10::impl::ExcludeDispatchKeyGuard below(get_excluded_keys());
  if (f.is_view) {
    op.redispatchBoxed(DispatchKeySet(target), stack);
    return;
  }

  if (f.calls_parts && is_profiled() && (types & f.special) == 0 && shows_parts()) {
    op.redispatchBoxed(DispatchKeySet(target), stack);
    return;
  }
  if (f.launches) check_before_launch(index);
  if (C10_UNLIKELY(f.has_alerts)) raise_alerts(f, *stack, base, index);
  std::optional<Widening> wide;
  const Types exclusive = types & f.exclusive;
  if (C10_UNLIKELY((types & f.special) != 0 || (exclusive & (exclusive - 1)) != 0))
    handle_special_types(wide, f, types, *stack, base, index);

  // Arguments saved for device-side assertions.
  std::vector<IValue> saved_arguments;
  if (C10_UNLIKELY(f.asserts)) saved_arguments.assign(stack->begin() + static_cast<ptrdiff_t>(base), stack->end());
  const bool is_profiled_launch = kIsCuda && is_profiled() && f.launches;
  // Found from the original tensors: their aliases are all on the CPU.
  const bool is_awaited = is_profiled_launch && waits_for_stream(f, *stack, base);
  const char* kernel = is_profiled_launch && f.row->list_kernel ? list_kernel(f, *stack, base) : nullptr;
  Aliases aliases(index, f.keep_alive);
  if (!f.keep_alive) aliases.keep_lazy();
  for (auto i : f.interesting) {
    IValue& v = (*stack)[base + i];
    const auto& arg = f.args[i];
    switch (arg.kind) {
      case Kind::Tensor: {
        if (!v.isTensor()) break;
        const at::Tensor& t = v.toTensor();
        if (!is_device_tensor(t)) break;
        if (C10_UNLIKELY(!f.takes_any_type)) check_type(f, t.scalar_type(), count < 0);
        if (count < 0 || arg.written) count = t.numel();
        at::Tensor alias = aliases.to_cpu(t, arg.written);
        if (C10_UNLIKELY(f.asks_grad) && t.requires_grad()) alias.set_requires_grad(true);
        if (C10_UNLIKELY(wide.has_value())) alias = wide->argument(alias, arg.written, i);
        if (C10_UNLIKELY(f.contiguous >> i & 1)) {
          const AllocateOnDevice here(index);
          alias = alias.contiguous();
        }
        v = std::move(alias);
        break;
      }
      case Kind::TensorList: {
        if (!v.isTensorList()) break;
        const auto list = v.toTensorList();
        c10::List<at::Tensor> out;
        out.reserve(list.size());
        for (size_t k = 0; k < list.size(); k++) {
          at::Tensor alias = aliases.to_cpu(list.get(k), arg.written);
          out.push_back(wide.has_value() ? wide->argument(alias, arg.written, i) : std::move(alias));
        }
        v = std::move(out);
        break;
      }
      case Kind::OptionalTensorList: {
        if (!v.isOptionalTensorList()) break;
        const auto list = v.toOptionalTensorList();
        c10::List<std::optional<at::Tensor>> out;
        out.reserve(list.size());
        for (size_t k = 0; k < list.size(); k++) {
          const std::optional<at::Tensor> t = list.get(k);
          out.push_back(t.has_value() ? std::optional<at::Tensor>(aliases.to_cpu(*t, false)) : t);
        }
        v = std::move(out);
        break;
      }
      case Kind::Device:
        if (v.isDevice() && v.toDevice().type() == kType) v = cpu();
        break;
      case Kind::Storage: {
        if (!v.isStorage()) break;
        const c10::Storage s = v.toStorage();
        if (s.device().type() == kType) v = aliases.to_cpu(s);
        break;
      }
      case Kind::Generator: {
        const at::Generator g = v.isGenerator() ? v.toGenerator() : at::Generator();
        // A generator alone also dispatches a call to this kernel.
        TORCH_CHECK(!only_cpu, "Expected a 'cpu' device type for generator but found '", kType, "'");
        v = cpu_generator(g, index, count);
        break;
      }
      case Kind::Other:
        break;
    }
  }
  if (C10_UNLIKELY(f.reads_back)) synchronize_current_stream(index);
  if (C10_UNLIKELY(f.divides_integers)) divide_by_one_for_zero(*stack, base);
  try {
    const AllocateOnDevice here(returns_host_tensors ? c10::DeviceIndex(-1) : index, any_cpu);
    DeviceWork launch;
    if (C10_UNLIKELY(is_profiled_launch)) begin_launch(launch, op, f, *stack, base, index, is_awaited, kernel);
    if (C10_UNLIKELY(f.is_seeded))
      redispatch_seeded(op, target, stack, index);
    else if (C10_LIKELY(!wide.has_value()) || !wide->compute_in_one_pass(!f.writes, *stack, base))
      op.redispatchBoxed(DispatchKeySet(target), stack);
  } catch (const c10::NotImplementedError& refusal) {
    if (kIsCuda) refuse_as_cuda(refusal, f.name, wide.has_value() ? wide->narrow() : c10::ScalarType::Undefined);
    throw;
  } catch (const c10::Error& error) {
    if (!kIsCuda || !(f.asserts || f.is_composite)) throw;
    if (!assert_on_device(op, f, target, saved_arguments, index, error, stack, base)) throw;
    return;
  }
  if (C10_UNLIKELY(wide.has_value())) round_results(*wide, f, *stack);
  if (f.writes) aliases.write_back();
  if (!f.tensor_returns || returns_host_tensors) return;
  for (size_t i = stack->size() - f.returns; i < stack->size(); i++) {
    IValue& v = (*stack)[i];
    if (v.isTensor()) {
      v = aliases.to_device(std::move(v).toTensor());
    } else if (v.isTensorList()) {
      auto list = std::move(v).toTensorList();
      c10::List<at::Tensor> out;
      out.reserve(list.size());
      for (size_t k = 0; k < list.size(); k++) out.push_back(aliases.to_device(list.extract(k)));
      v = std::move(out);
    } else if (v.isOptionalTensorList()) {
      const auto list = v.toOptionalTensorList();
      c10::List<std::optional<at::Tensor>> out;
      for (size_t k = 0; k < list.size(); k++) {
        const std::optional<at::Tensor> t = list.get(k);
        out.push_back(t.has_value() ? std::optional<at::Tensor>(aliases.to_device(*t)) : t);
      }
      v = std::move(out);
    }
  }
}

struct BoxedKernel final : c10::OperatorKernel {
  explicit BoxedKernel(DispatchKey target) : target_(target) {}
  ~BoxedKernel() override {
    delete info_.load();
  }
  void operator()(const c10::OperatorHandle& op, DispatchKeySet, Stack* stack) {
    const OperatorInfo* f = info_.load(std::memory_order_acquire);
    if (C10_UNLIKELY(!f)) {
      const OperatorInfo* made = make_operator_info(op).release();
      if (info_.compare_exchange_strong(f, made))
        f = made;
      else
        delete made;
    }
    run(op, *f, target_, stack);
  }

 private:
  DispatchKey target_;
  std::atomic<const OperatorInfo*> info_{nullptr};
};

}  // namespace

// Metadata of operators without a kernel object. The lock protects the table; its entries never change.
const OperatorInfo& get_operator_info(const c10::OperatorHandle& op) {
  static std::shared_mutex mutex;
  static auto* all = new std::unordered_map<const void*, std::unique_ptr<OperatorInfo>>;
  const void* key = &op.schema();
  {
    std::shared_lock<std::shared_mutex> lock(mutex);
    auto it = all->find(key);
    if (it != all->end()) return *it->second;
  }
  auto made = make_operator_info(op);
  made->takes_any_type = true;
  std::unique_lock<std::shared_mutex> lock(mutex);
  return *all->emplace(key, std::move(made)).first->second;
}

torch::CppFunction boxed_kernel(DispatchKey target) {
  return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<BoxedKernel>(target));
}

void change_list(const c10::OperatorHandle& op, DispatchKeySet, Stack* stack) {
  const char* kernel = nullptr;
  DeviceWork launch;
  if (is_intercepted()) {
    // What a GPU's kernel does at once is one piece of work.
    const OperatorInfo& f = get_operator_info(op);
    if (list_kernel(f, *stack, stack->size() - f.args.size())) {
      g_record(op, DispatchKeySet(kDense), stack);
      return;
    }
  }
  if (is_profiled() && !is_intercepted() && !DeviceWork::is_in_progress()) {
    const OperatorInfo& f = get_operator_info(op);
    const size_t base = stack->size() - f.args.size();
    kernel = list_kernel(f, *stack, base);
    if (kernel) launch.begin(op.schema().name(), (*stack)[base].toTensorList().get(0).device().index());
  }
  op.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), stack);
  if (kernel) DeviceWork::mark_kernel(op.schema().name(), kernel);
}

void run_on_cpu(const c10::OperatorHandle& op, DispatchKey target, Stack* stack) {
  run(op, get_operator_info(op), target, stack);
}

}  // namespace hostdevice
