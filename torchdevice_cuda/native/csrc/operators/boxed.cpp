#include "operators/boxed.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>

#include "operators/alias.h"
#include "operators/op_table.h"
#include "operators/refusals.h"
#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/generator.h"
#include "runtime/install.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;
using torch::jit::Stack;

// ---- what a call needs to know about its operator, worked out once ------------------------------------------------

enum class Kind : uint8_t { Other, Tensor, TensorList, OptionalTensorList, Device, Generator, Storage };

struct ArgFact {
  Kind kind = Kind::Other;
  bool written = false;
};

struct Facts {
  std::vector<ArgFact> args;
  std::vector<uint16_t> interesting;  // positions whose kind is not Other
  std::vector<uint16_t> check_order;  // outputs first, then the positional tensors
  size_t returns = 0;
  bool tensor_returns = false;
  bool writes = false;
  bool view = false;  // returns a view of an argument: made on the device tensors themselves
  bool device_check = false;
  bool composite = false;  // made of other operators; run whole only to spare their overhead
  bool mixes = false;      // takes tensors of several devices by design
  bool indexing = false;   // index tensors may live on the CPU
  bool seeded = false;     // draws random numbers without being given a generator
  bool keep_alive = false;
  bool asks_grad = false;   // does less when no argument requires a gradient
  bool divides = false;     // by its second argument, where an integer zero is no error on a GPU
  bool reads_back = false;  // hands a value to the host, so waits for the stream
  bool any_type = true;     // has a kernel for whatever type a tensor can have
  std::vector<const Limit*> limits;
  std::string method;
};

Kind kind_of(const c10::TypePtr& given) {
  c10::TypePtr type = given;
  if (auto o = type->cast<c10::OptionalType>()) type = o->getElementType();
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return Kind::Tensor;
    case c10::TypeKind::ListType: {
      auto element = type->castRaw<c10::ListType>()->getElementType();
      if (element->kind() == c10::TypeKind::TensorType) return Kind::TensorList;
      if (auto o = element->cast<c10::OptionalType>(); o && o->getElementType()->kind() == c10::TypeKind::TensorType)
        return Kind::OptionalTensorList;
      return Kind::Other;
    }
    case c10::TypeKind::DeviceObjType:
      return Kind::Device;
    case c10::TypeKind::GeneratorType:
      return Kind::Generator;
    case c10::TypeKind::StorageType:
      return Kind::Storage;
    default:
      return Kind::Other;
  }
}

const std::unordered_set<std::string>& mixing_ops() {
  static const auto* ops = new std::unordered_set<std::string>{
      "aten::copy_",
      "aten::_copy_from",
      "aten::_copy_from_and_resize",
      "aten::_foreach_copy_",
      "aten::copy",
      "aten::set_",
      "aten::_has_same_storage_numel",
      "aten::is_same_size",
      "aten::equal",
      "aten::_fused_adam_",
      "aten::_fused_adamw_",
      "aten::_fused_sgd_",
      "aten::_fused_adagrad_",
      "aten::_pack_padded_sequence",
      "aten::_pack_padded_sequence_backward"};
  return *ops;
}
const std::unordered_set<std::string>& indexing_ops() {
  static const auto* ops = new std::unordered_set<std::string>{
      "aten::index",           "aten::index_put",     "aten::index_put_",       "aten::_index_put_impl_",
      "aten::_index_put_impl", "aten::_unsafe_index", "aten::_unsafe_index_put"};
  return *ops;
}

std::unique_ptr<Facts> make_facts(const c10::OperatorHandle& op) {
  auto f = std::make_unique<Facts>();
  const auto& schema = op.schema();
  const auto& arguments = schema.arguments();
  std::vector<uint16_t> positional;
  bool has_generator = false;
  for (size_t i = 0; i < arguments.size(); i++) {
    const auto& a = arguments[i];
    ArgFact fact;
    fact.kind = kind_of(a.type());
    fact.written = a.alias_info() && a.alias_info()->isWrite();
    f->writes = f->writes || fact.written;
    has_generator = has_generator || fact.kind == Kind::Generator;
    if (fact.kind != Kind::Other) f->interesting.push_back(static_cast<uint16_t>(i));
    const bool tensors =
        fact.kind == Kind::Tensor || fact.kind == Kind::TensorList || fact.kind == Kind::OptionalTensorList;
    if (tensors && a.kwarg_only() && fact.written) f->check_order.push_back(static_cast<uint16_t>(i));
    if (tensors && !a.kwarg_only()) positional.push_back(static_cast<uint16_t>(i));
    f->args.push_back(fact);
  }
  f->check_order.insert(f->check_order.end(), positional.begin(), positional.end());
  f->returns = schema.returns().size();
  for (const auto& r : schema.returns()) {
    const auto kind = kind_of(r.type());
    if (kind == Kind::Tensor || kind == Kind::TensorList || kind == Kind::OptionalTensorList) f->tensor_returns = true;
    if (r.type()->kind() == c10::TypeKind::ClassType) f->keep_alive = true;
    if (r.type()->kind() == c10::TypeKind::NumberType || r.type()->kind() == c10::TypeKind::BoolType)
      f->reads_back = true;
    if (r.alias_info() && !r.alias_info()->isWrite()) f->view = true;
  }
  static const auto* divisions =
      new std::unordered_set<std::string>{"aten::floor_divide", "aten::floor_divide_", "aten::div",  "aten::div_",
                                          "aten::remainder",    "aten::remainder_",    "aten::fmod", "aten::fmod_"};
  // div and div_ divide truly unless they are given a rounding mode.
  f->divides = divisions->count(schema.name()) != 0 &&
      (schema.name().find("div") != 6 || schema.overload_name().find("mode") != std::string::npos);
  f->asks_grad = schema.name() == "aten::_sparse_mm_reduce_impl" || schema.name() == "aten::_fused_sdp_choice";
  f->composite = !op.hasKernelForDispatchKey(DispatchKey::CPU) &&
      op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd);
  if (!kIsCuda) {
    f->any_type = only_moves(schema.name());
    for (const auto& limit : kLimits)
      if (schema.name() == limit.name) f->limits.push_back(&limit);
  }
  f->mixes = mixing_ops().count(schema.name()) != 0;
  f->indexing = indexing_ops().count(schema.name()) != 0;
  f->seeded = !has_generator && op.hasTag(at::Tag::nondeterministic_seeded);
  std::string name = schema.name();
  if (name.rfind("aten::", 0) == 0) {
    name = name.substr(6);
    if (!schema.overload_name().empty()) name += "." + schema.overload_name();
    if (const auto* row = find_op_row(name.c_str())) {
      f->device_check = (row->flags & kDeviceCheck) != 0;
      f->method = row->method;
    }
  }
  return f;
}

// ---- devices that do not belong together --------------------------------------------------------------------------

template <class F>
void each_tensor(const IValue& v, Kind kind, F f) {
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

[[noreturn]] void two_devices(c10::Device a, c10::Device b) {
  TORCH_CHECK(
      false, "Expected all tensors to be on the same device, but found at least two devices, ", a, " and ", b, "!");
}

// Called when the arguments live on more than one device. Returns if that is allowed; says what CUDA says if not.
C10_NOINLINE void check_devices(const c10::OperatorHandle& op, const Facts& f, const Stack& stack, size_t base) {
  if (f.mixes) return;
  const auto& arguments = op.schema().arguments();
  if (f.indexing) {
    const c10::Device self = stack[base].toTensor().device();
    for (auto i : f.interesting) {
      if (f.args[i].kind != Kind::OptionalTensorList) continue;
      each_tensor(stack[base + i], f.args[i].kind, [&](const at::Tensor& t) {
        TORCH_CHECK(
            t.device().is_cpu() || t.device() == self,
            "indices should be either on cpu or on the same device as the indexed tensor (", self, ")");
      });
    }
    for (auto i : f.interesting) {
      if (f.args[i].kind != Kind::Tensor) continue;
      each_tensor(stack[base + i], Kind::Tensor, [&](const at::Tensor& t) {
        if (t.device() != self && !(t.device().is_cpu() && t.dim() == 0)) two_devices(self, t.device());
      });
    }
    return;
  }
  if (f.device_check) {
    std::optional<c10::Device> common;
    for (auto i : f.check_order) {
      each_tensor(stack[base + i], f.args[i].kind, [&](const at::Tensor& t) {
        if (!common) {
          common = t.device();
          return;
        }
        TORCH_CHECK(
            t.device() == *common, "Expected all tensors to be on the same device, but got ", arguments[i].name(),
            " is on ", t.device(), ", different from other tensors on ", *common, " (when checking argument in method ",
            f.method, ")");
      });
    }
    return;
  }
  std::optional<c10::Device> common;
  for (auto i : f.interesting) {
    each_tensor(stack[base + i], f.args[i].kind, [&](const at::Tensor& t) {
      if (!common && !t.device().is_cpu()) common = t.device();
    });
  }
  if (!common) return;
  for (auto i : f.interesting) {
    each_tensor(stack[base + i], f.args[i].kind, [&](const at::Tensor& t) {
      if (t.device() == *common) return;
      const bool scalar = t.device().is_cpu() && t.dim() == 0 && !f.args[i].written;
      if (!scalar) two_devices(*common, t.device());
    });
  }
}

// ---- the kernel ---------------------------------------------------------------------------------------------------

// Random kernels that take no generator draw from the CPU's default one: lend it our seed for the call.
void redispatch_seeded(const c10::OperatorHandle& op, DispatchKey target, Stack* stack, c10::DeviceIndex index) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  auto generator = at::detail::getDefaultCPUGenerator();
  const auto saved = generator.get_state();
  generator.set_current_seed(next_seed(at::Generator(), index, 1));
  try {
    op.redispatchBoxed(DispatchKeySet(target), stack);
  } catch (...) {
    generator.set_state(saved);
    throw;
  }
  generator.set_state(saved);
}

const DispatchKeySet& excluded_below() {
  static const DispatchKeySet keys = c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;
  return keys;
}

// The CPU raises on an integer division by zero; a GPU gives an unspecified number. The number here is what dividing
// by one gives.
C10_NOINLINE void divide_by_one_for_zero(Stack& stack, size_t base) {
  const auto integral = [](const IValue& v) {
    return v.isTensor() ? at::isIntegralType(v.toTensor().scalar_type(), true) : v.isInt() || v.isBool();
  };
  IValue& by = stack[base + 1];
  if (!integral(stack[base]) || !integral(by)) return;
  const bool has_mode = stack.size() - base > 2 && !stack[base + 2].isTensor();
  if (has_mode && stack[base + 2].isNone()) return;
  if (!by.isTensor()) {
    if (by.toScalar().toLong() == 0) by = c10::Scalar(int64_t{1});
    return;
  }
  const at::Tensor zero = by.toTensor().eq(0);
  if (zero.any().item<bool>()) by = by.toTensor().masked_fill(zero, 1);
}

C10_NOINLINE void check_type(const Facts& f, c10::ScalarType type, bool first) {
  check_computes(type);
  for (const auto* limit : f.limits) TORCH_CHECK(!(first && limit->refused(type)), limit->words);
}

void run(const c10::OperatorHandle& op, const Facts& f, DispatchKey target, Stack* stack) {
  check_fork();
  const size_t base = stack->size() - f.args.size();

  // Which device is this for, and is it one device?
  c10::DeviceIndex index = -1;
  bool any_cpu = false, several = false;
  int64_t count = -1;
  const auto look = [&](const at::Tensor& t) {
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
    } else if (f.args[i].kind == Kind::Device) {
      if (index < 0 && v.isDevice() && v.toDevice().type() == kType) index = resolve(v.toDevice().index());
    } else {
      each_tensor(v, f.args[i].kind, look);
    }
  }
  if (C10_UNLIKELY(several || (any_cpu && index >= 0))) {
    if (f.composite && target == DispatchKey::CPU) {
      // Its parts know what they take, and say so in their own name if they do not.
      op.redispatchBoxed(DispatchKeySet(target), stack);
      return;
    }
    check_devices(op, f, *stack, base);
  }
  const bool only_cpu = any_cpu && index < 0;
  if (index < 0) index = t_current_device;

  const c10::impl::ExcludeDispatchKeyGuard below(excluded_below());
  if (f.view) {
    op.redispatchBoxed(DispatchKeySet(target), stack);
    return;
  }

  Aliases aliases(index, f.keep_alive);
  for (auto i : f.interesting) {
    IValue& v = (*stack)[base + i];
    const auto& arg = f.args[i];
    switch (arg.kind) {
      case Kind::Tensor: {
        if (!v.isTensor()) break;
        const at::Tensor& t = v.toTensor();
        if (!is_device_tensor(t)) break;
        if (C10_UNLIKELY(!f.any_type)) check_type(f, t.scalar_type(), count < 0);
        if (count < 0 || arg.written) count = t.numel();
        at::Tensor alias = aliases.to_cpu(t, arg.written);
        if (C10_UNLIKELY(f.asks_grad) && t.requires_grad()) alias.set_requires_grad(true);
        v = std::move(alias);
        break;
      }
      case Kind::TensorList: {
        if (!v.isTensorList()) break;
        const auto list = v.toTensorList();
        c10::List<at::Tensor> out;
        out.reserve(list.size());
        for (size_t k = 0; k < list.size(); k++) out.push_back(aliases.to_cpu(list.get(k), arg.written));
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
        // A generator alone brings a call here, too.
        TORCH_CHECK(!only_cpu, "Expected a 'cpu' device type for generator but found '", kType, "'");
        v = cpu_generator(g, index, count);
        break;
      }
      case Kind::Other:
        break;
    }
  }
  if (C10_UNLIKELY(f.reads_back)) synchronize_current_stream(index);
  if (C10_UNLIKELY(f.divides)) divide_by_one_for_zero(*stack, base);
  {
    const AllocateOnDevice here(index, any_cpu);
    if (C10_UNLIKELY(f.seeded))
      redispatch_seeded(op, target, stack, index);
    else
      op.redispatchBoxed(DispatchKeySet(target), stack);
  }
  if (f.writes) aliases.write_back();
  if (!f.tensor_returns) return;
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

// For operators without a kernel object of their own (the fallback, and calls from composites).
const Facts& shared_facts(const c10::OperatorHandle& op) {
  static std::shared_mutex mutex;
  static auto* all = new std::unordered_map<const void*, std::unique_ptr<Facts>>;
  const void* key = &op.schema();
  {
    std::shared_lock<std::shared_mutex> lock(mutex);
    auto it = all->find(key);
    if (it != all->end()) return *it->second;
  }
  auto made = make_facts(op);
  made->any_type = true;  // what computes here is the CPU, by name
  std::unique_lock<std::shared_mutex> lock(mutex);
  return *all->emplace(key, std::move(made)).first->second;
}

struct BoxedKernel final : c10::OperatorKernel {
  explicit BoxedKernel(DispatchKey target) : target_(target) {}
  ~BoxedKernel() override {
    delete facts_.load();
  }
  void operator()(const c10::OperatorHandle& op, DispatchKeySet, Stack* stack) {
    const Facts* f = facts_.load(std::memory_order_acquire);
    if (C10_UNLIKELY(!f)) {
      const Facts* made = make_facts(op).release();
      if (facts_.compare_exchange_strong(f, made))
        f = made;
      else
        delete made;
    }
    run(op, *f, target_, stack);
  }

 private:
  DispatchKey target_;
  std::atomic<const Facts*> facts_{nullptr};
};

// ---- operators nobody else answers for ----------------------------------------------------------------------------

void warn_fallback(const c10::OperatorHandle& op) {
  TORCH_WARN_ONCE(
      "The operator '", op.operator_name(),
      "' is not currently supported on the MPS backend and will fall back to run on the CPU. This may have "
      "performance implications.");
}

// Operators without an MPS kernel that PyTorch sends to the CPU there, whatever the environment says. (It names
// linalg_svd; the operator underneath is the one with a gradient.)
void always_fallback(const c10::OperatorHandle& op, DispatchKeySet, Stack* stack) {
  warn_fallback(op);
  run(op, shared_facts(op), DispatchKey::CPU, stack);
}

void fallback(const c10::OperatorHandle& op, DispatchKeySet, Stack* stack) {
  if (kIsCuda) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        op.hasKernelForDispatchKey(DispatchKey::CPU) ||
            op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd),
        "Could not run '", op.operator_name(),
        "' with arguments from the 'CUDA' backend. The virtual GPU computes with "
        "the CPU's kernels, and the CPU has none for this operator.");
    run(op, shared_facts(op), DispatchKey::CPU, stack);
    return;
  }
  static const char* env = std::getenv("PYTORCH_ENABLE_MPS_FALLBACK");
  static const bool allowed = env && std::atoi(env) != 0;
  TORCH_CHECK_NOT_IMPLEMENTED(
      allowed, "The operator '", op.operator_name(),
      "' is not currently implemented for the MPS device. If you want this op to be considered for addition please "
      "comment on https://github.com/pytorch/pytorch/issues/141287 and mention use-case, that resulted in missing op "
      "as well as commit hash . As a temporary fix, you can set the environment variable "
      "`PYTORCH_ENABLE_MPS_FALLBACK=1` to use the CPU as a fallback for this op. WARNING: this will be slower than "
      "running natively on MPS.");
  warn_fallback(op);
  run(op, shared_facts(op), DispatchKey::CPU, stack);
}

// What a CUDA build computes with CUDA alone: its own kernel would look for a GPU that is not there.
void refuse(const c10::OperatorHandle& op, DispatchKeySet, Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "Could not run '", op.operator_name(), "' with arguments from the '", kName,
      "' backend. The virtual GPU computes with the CPU's kernels, and the CPU has none for this operator.");
}

// Composites that stay composites: they make views or fresh tensors on the device of their arguments by themselves,
// or only look at metadata.
bool stays_composite(const c10::OperatorHandle& op) {
  static const auto* names = new std::unordered_set<std::string>{
      "aten::lift",
      "aten::lift_fresh",
      "aten::_fw_primal",
      "aten::_make_dual",
      "aten::detach_",
      "aten::_lazy_clone",
      "aten::is_same_size",
      "aten::_pin_memory",
      "aten::is_pinned",
      "aten::copy_",
      "aten::_print",
      "aten::is_coalesced",
      "aten::sparse_dim",
      "aten::dense_dim",
      "aten::zero",
      "aten::resize",
      "aten::resize_as",
      "aten::resize_as_",
      "aten::_cudnn_rnn",
      "aten::_assert_scalar",
      "aten::_functional_assert_scalar",
      "aten::_assert_tensor_metadata",
      "aten::_has_same_storage_numel",
      "aten::_nested_tensor_from_tensor_list",
      "aten::_new_zeros_with_same_feature_meta",
      "aten::_scaled_dot_product_fused_attention_overrideable",
      "aten::_scaled_dot_product_fused_attention_overrideable_backward",
      "aten::unsafe_split",
      "aten::unsafe_split_with_sizes",
      "aten::_unsafe_view",
      "aten::_coalesced",
      "aten::copy_sparse_to_sparse",
      "aten::_pack_padded_sequence"};
  const auto& schema = op.schema();
  if (names->count(schema.name())) return true;
  if (op.hasTag(at::Tag::inplace_view)) return true;
  bool tensors = false;
  for (const auto& a : schema.arguments()) {
    const auto kind = kind_of(a.type());
    if (kind == Kind::Device) return true;
    tensors = tensors || kind == Kind::Tensor || kind == Kind::TensorList;
  }
  for (const auto& r : schema.returns())
    if (r.alias_info() && !r.alias_info()->isWrite()) return true;
  return !tensors || schema.returns().empty();
}

std::map<DispatchKey, std::set<std::string>>& claims() {
  static auto* c = new std::map<DispatchKey, std::set<std::string>>;
  return *c;
}

struct KeyPair {
  DispatchKey device, cpu;
  uint8_t mps_flag;
};
const KeyPair kKeys[] = {
    {kDense, DispatchKey::CPU, kMpsKernel},
    {kSparse, DispatchKey::SparseCPU, kMpsSparseKernel},
    {kSparseCsr, DispatchKey::SparseCsrCPU, kMpsSparseCsrKernel},
    {kNested, DispatchKey::NestedTensorCPU, kMpsNestedKernel},
    {kQuantized, DispatchKey::QuantizedCPU, 0},
};

}  // namespace

const OpRow* find_op_row(const char* name) {
  const auto* end = kOpTable + kOpTableSize;
  const auto* it =
      std::lower_bound(kOpTable, end, name, [](const OpRow& r, const char* n) { return std::strcmp(r.name, n) < 0; });
  return it != end && std::strcmp(it->name, name) == 0 ? it : nullptr;
}

void claim(DispatchKey key, const std::string& name) {
  claims()[key].insert(name);
}
bool is_claimed(DispatchKey key, const std::string& name) {
  return claims()[key].count(name) != 0;
}

void run_on_cpu(const c10::OperatorHandle& op, DispatchKey target, Stack* stack) {
  run(op, shared_facts(op), target, stack);
}

void register_boxed_kernels() {
  auto& dispatcher = c10::Dispatcher::singleton();
  std::vector<std::unique_ptr<torch::Library>> libraries;
  for (const auto& k : kKeys)
    libraries.push_back(
        std::make_unique<torch::Library>(
            torch::Library::IMPL, "aten", std::make_optional(k.device), __FILE__, static_cast<uint32_t>(__LINE__)));
  for (const auto& full : dispatcher.getAllOpNames()) {
    if (full.name.compare(0, 6, "aten::") != 0) continue;
    auto op = dispatcher.findOp(full);
    if (!op.has_value() || !op->hasSchema()) continue;
    std::string name = full.name.substr(6);
    if (!full.overload_name.empty()) name += "." + full.overload_name;
    const OpRow* row = find_op_row(name.c_str());
    for (size_t i = 0; i < libraries.size(); i++) {
      const auto& k = kKeys[i];
      if (is_claimed(k.device, name)) continue;
      bool wanted = op->hasKernelForDispatchKey(k.cpu);
      if (kIsCuda) {
        const bool composite = op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd);
        if (k.device == kDense && !wanted && composite) wanted = !stays_composite(*op);
        // Only a CUDA build has kernels here already.
        if (!wanted && op->hasKernelForDispatchKey(k.device)) {
          wanted = composite || op->hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd);
          if (!wanted) {
            libraries[i]->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&refuse>());
            continue;
          }
        }
      } else {
        wanted = wanted && row && (row->flags & k.mps_flag);
      }
      if (!wanted) continue;
      libraries[i]->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<BoxedKernel>(k.cpu)));
    }
  }
  if (!kIsCuda) {
    for (const char* name : {"embedding_renorm_", "_linalg_svd", "_linalg_svd.U"}) {
      const auto* row = find_op_row(name);
      if (row && !(row->flags & kMpsKernel))
        libraries[0]->impl(name, torch::CppFunction::makeFromBoxedFunction<&always_fallback>());
    }
  }
  auto any = std::make_unique<torch::Library>(
      torch::Library::IMPL, "_", std::make_optional(kDense), __FILE__, static_cast<uint32_t>(__LINE__));
  any->fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
  libraries.push_back(std::move(any));
  // The registrations last as long as the process.
  for (auto& l : libraries) l.release();
}

}  // namespace hostdevice
