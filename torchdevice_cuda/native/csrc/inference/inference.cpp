#include "inference/inference.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "operators/alias.h"
#include "operators/shapes.h"
#include "operators/tensors.h"
#include "runtime/activities.h"
#include "runtime/captures.h"
#include "runtime/generator.h"

namespace hostdevice {
namespace {

using c10::IValue;

// A program whose shapes always change has no use for the cache, which is then emptied again and again.
constexpr size_t kMostCached = 20'000;
// Bytes of arguments of calls that are tried.
constexpr size_t kMostTried = size_t{64} << 20;

// Operators whose results differ from what their meta kernels return: CUDA's implementations return scratch tensors
// that depend on the GPU, or state of random numbers on the host.
constexpr std::array kUnknown = {
    std::string_view("_scaled_dot_product"),  std::string_view("_flash_attention"),
    std::string_view("_efficient_attention"), std::string_view("_cudnn_rnn"),
    std::string_view("_thnn_fused"),
};

bool is_unknown(const std::string& name) {
  const auto begins = [&](std::string_view start) { return name.compare(0, start.size(), start) == 0; };
  return std::any_of(kUnknown.begin(), kUnknown.end(), begins);
}

// The text of everything in a call that may determine its results: all but the elements of tensors.
class Signature {
 public:
  Signature(const c10::OperatorHandle& op, InferBy by) {
    add(&op.schema());
    add(by);
    add(c10::typeMetaToScalarType(c10::get_default_dtype()));
  }

  // Return false if the value has no text.
  bool add_value(const IValue& v) {
    const auto tag = [&](char c) { text_.push_back(c); };
    if (v.isTensor()) return tag('t'), add_tensor(v.toTensor()), true;
    if (v.isNone()) return tag('n'), true;
    if (v.isInt()) return tag('i'), add(v.toInt()), true;
    if (v.isDouble()) return tag('d'), add(v.toDouble()), true;
    if (v.isBool()) return tag('b'), add(v.toBool()), true;
    if (v.isComplexDouble()) return tag('c'), add(v.toComplexDouble()), true;
    if (v.isDevice()) return tag('v'), add(v.toDevice().type()), true;
    if (v.isGenerator()) return tag('g'), true;
    if (v.isString()) return tag('s'), add(v.toStringRef().size()), text_.append(v.toStringRef()), true;
    if (!v.isList()) return false;
    const auto& list = v.toListRef();
    tag('l');
    add(list.size());
    return std::all_of(list.begin(), list.end(), [&](const IValue& each) { return add_value(each); });
  }

  std::string take() {
    return std::move(text_);
  }

 private:
  template <class T>
  void add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void add_tensor(const at::Tensor& t) {
    add(t.defined());
    if (!t.defined()) return;
    add(t.scalar_type());
    add(t.unsafeGetTensorImpl()->is_wrapped_number());
    add(t.dim());
    for (const auto n : t.sizes()) add(n);
    for (const auto n : t.strides()) add(n);
  }

  std::string text_;
};

struct Cache {
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<const Inferred>> known;
};
Cache& cache() {
  static auto* one = new Cache;
  return *one;
}

// A call that was tried: its results, and its tensors with the arguments that they replace.
using TriedCall = MetaCall;

// Describes what a call returned, and what it did to its arguments.
class Describing {
 public:
  Describing(const TriedCall& call, const std::vector<at::Tensor>& given, c10::DeviceType type)
      : call_(call), given_(given), type_(type) {}

  // Return null if a result is not an ordinary tensor.
  std::shared_ptr<Inferred> describe() {
    find_resized();
    for (const auto& v : call_.results)
      if (!add_result(v)) return nullptr;
    return inferred_;
  }

 private:
  void find_resized() {
    for (const auto& [tried, argument] : call_.tensors) {
      if (tried.sizes() == argument.sizes() && tried.strides() == argument.strides()) continue;
      InferredTensor& resized = inferred_->resized.emplace_back();
      resized.argument = find_given(argument);
      set_geometry(tried, resized);
      inferred_->is_plain = false;
    }
  }
  bool add_result(const IValue& v) {
    InferredResult result;
    std::vector<at::Tensor> tensors;
    if (v.isTensor()) {
      tensors.push_back(v.toTensor());
    } else if (v.isTensorList()) {
      result.kind = Kind::TensorList;
      tensors = v.toTensorVector();
    } else if (v.isInt() || v.isNone()) {
      result.kind = Kind::Other;
      result.value = v;
    } else {
      return false;
    }
    for (const auto& t : tensors)
      if (!add_tensor(t, result.tensors.emplace_back())) return false;
    inferred_->results.push_back(std::move(result));
    return true;
  }
  bool add_tensor(const at::Tensor& t, InferredTensor& out) {
    if (!t.defined()) {
      out.argument = InferredTensor::kUndefined;
      return true;
    }
    for (const auto& [tried, argument] : call_.tensors) {
      if (!tried.is_same(t)) continue;
      out.argument = find_given(argument);
      return out.argument != InferredTensor::kNew;
    }
    if (t.device().type() != type_ || !is_plain(t)) return false;
    if (t.is_conj() || t.is_neg() || t._is_zerotensor()) return false;
    const auto shares = [&](const at::Tensor& other) { return other.storage().is_alias_of(t.storage()); };
    set_geometry(t, out);
    for (const auto& [tried, argument] : call_.tensors) {
      if (!shares(tried)) continue;
      out.argument = find_given(argument);
      out.is_view = true;
    }
    if (out.is_view || t.storage_offset() != 0 || std::any_of(made_.begin(), made_.end(), shares))
      inferred_->is_plain = false;
    made_.push_back(t);
    return true;
  }
  static void set_geometry(const at::Tensor& t, InferredTensor& out) {
    out.dtype = t.dtype();
    out.sizes = t.sizes();
    out.strides = t.strides();
    out.offset = t.storage_offset();
  }
  int find_given(const at::Tensor& argument) const {
    const auto is_argument = [&](const at::Tensor& other) { return other.is_same(argument); };
    const auto found = std::find_if(given_.begin(), given_.end(), is_argument);
    return found == given_.end() ? InferredTensor::kNew : static_cast<int>(found - given_.begin());
  }

  const TriedCall& call_;
  const std::vector<at::Tensor>& given_;
  c10::DeviceType type_;
  std::vector<at::Tensor> made_;
  std::shared_ptr<Inferred> inferred_ = std::make_shared<Inferred>();
};

bool draws_numbers(const c10::OperatorHandle& op, const OperatorInfo& f) {
  return f.is_seeded || op.hasTag(at::Tag::nondeterministic_seeded) ||
      std::any_of(f.args.begin(), f.args.end(), [](const ArgumentInfo& a) { return a.kind == Kind::Generator; });
}

size_t count_bytes(const OperatorInfo& f, c10::ArrayRef<IValue> arguments) {
  size_t bytes = 0;
  for (const auto i : f.interesting)
    each_tensor(arguments[i], f.args[i].kind, [&](const at::Tensor& t) { bytes += t.nbytes(); });
  return bytes;
}

// Call the device's kernel with zeros instead of the arguments' elements.
std::shared_ptr<Inferred> infer_by_trying(
    const c10::OperatorHandle& op, const OperatorInfo& f, c10::DispatchKeySet keys, c10::DeviceIndex index,
    c10::ArrayRef<IValue> arguments) {
  CapturedAllocations tried;
  const CapturedAllocations none;
  const auto restore = c10::make_scope_exit([saved = t_captured] { t_captured = saved; });
  t_captured = {&tried, &none, 0, 0};
  const InNode whole;
  DeviceWork launch;
  if (is_profiled()) {
    launch.begin(op.schema().name(), index);
    DeviceWork::mark_empty();
  }
  TriedCall call;
  for (size_t i = 0; i < arguments.size(); i++) {
    call.results.push_back(map_tensors(arguments[i], f.args[i].kind, [&](const at::Tensor& t) {
      if (!is_device_tensor(t)) return t;
      for (const auto& [zeros, argument] : call.tensors)
        if (argument.is_same(t)) return zeros;
      const at::Tensor zeros = at::empty_strided(t.sizes(), t.strides(), t.options().requires_grad(false));
      if (zeros.storage().nbytes()) std::memset(zeros.storage().mutable_data(), 0, zeros.storage().nbytes());
      call.tensors.emplace_back(zeros, t);
      return zeros;
    }));
  }
  op.redispatchBoxed(keys, &call.results);
  auto inferred = call.results.size() == op.schema().returns().size()
      ? Describing(call, list_device_tensors(f, arguments), kType).describe()
      : nullptr;
  if (!inferred) return nullptr;
  for (const auto& draw : tried.draws) inferred->draws.push_back(draw.relative_offset);
  inferred->words = tried.words;
  return inferred;
}

std::shared_ptr<Inferred> infer_by_meta_kernel(
    const c10::OperatorHandle& op, const OperatorInfo& f, c10::ArrayRef<IValue> arguments) {
  if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta)) return nullptr;
  // Meta kernels in Python must not meet the modes of the program.
  using FunctionModes = at::impl::PythonTorchFunctionTLS;
  const auto restore =
      c10::make_scope_exit([saved = FunctionModes::get_disabled_state()] { FunctionModes::set_disabled_state(saved); });
  FunctionModes::set_disabled_state(at::impl::TorchFunctionDisabledState::ALL_DISABLED);
  const auto call = call_meta_kernel(op, f, arguments);
  return Describing(call, list_device_tensors(f, arguments), c10::DeviceType::Meta).describe();
}

std::shared_ptr<const Inferred> infer_by_shapes(
    const c10::OperatorHandle& op, const OperatorInfo& f, c10::DispatchKeySet keys, c10::DeviceIndex index,
    c10::ArrayRef<IValue> arguments) {
  const bool is_small = count_bytes(f, arguments) <= kMostTried;
  try {
    if (auto inferred = infer_by_meta_kernel(op, f, arguments)) return inferred;
  } catch (const c10::NotImplementedError&) {
    if (!is_small) return nullptr;
  } catch (const std::exception&) {
    // The device's kernel raises CUDA's error, if the call is wrong.
    if (!is_small) throw;
  }
  return is_small ? infer_by_trying(op, f, keys, index, arguments) : nullptr;
}

std::shared_ptr<const Inferred> infer_uncached(
    const c10::OperatorHandle& op, const OperatorInfo& f, c10::DispatchKeySet keys, c10::DeviceIndex index,
    c10::ArrayRef<IValue> arguments, InferBy by) {
  const c10::impl::ExcludeDispatchKeyGuard below(
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset | c10::python_ks);
  if (by == InferBy::kShapes) return infer_by_shapes(op, f, keys, index, arguments);
  try {
    if (draws_numbers(op, f) || count_bytes(f, arguments) <= kMostTried)
      return infer_by_trying(op, f, keys, index, arguments);
    return is_unknown(f.name) ? nullptr : infer_by_meta_kernel(op, f, arguments);
  } catch (const std::exception&) {
    // The call is wrong, and the operator itself raises CUDA's error; or it does not compute with zeros.
    return nullptr;
  }
}

}  // namespace

std::vector<at::Tensor> list_device_tensors(const OperatorInfo& f, c10::ArrayRef<IValue> arguments) {
  std::vector<at::Tensor> given;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto i : f.interesting) {
    each_tensor(arguments[i], f.args[i].kind, [&](const at::Tensor& t) {
      if (is_device_tensor(t) && seen.insert(t.unsafeGetTensorImpl()).second) given.push_back(t);
    });
  }
  return given;
}

std::shared_ptr<const Inferred> infer(
    const c10::OperatorHandle& op, const OperatorInfo& f, c10::DispatchKeySet keys, c10::DeviceIndex index,
    c10::ArrayRef<IValue> arguments, InferBy by) {
  Signature signature(op, by);
  for (const auto& v : arguments)
    if (!signature.add_value(v)) return infer_uncached(op, f, keys, index, arguments, by);
  std::string key = signature.take();
  {
    const std::lock_guard<std::mutex> lock(cache().mutex);
    const auto found = cache().known.find(key);
    if (found != cache().known.end()) return found->second;
  }
  auto inferred = infer_uncached(op, f, keys, index, arguments, by);
  const std::lock_guard<std::mutex> lock(cache().mutex);
  if (cache().known.size() >= kMostCached) cache().known.clear();
  cache().known.emplace(std::move(key), inferred);
  return inferred;
}

torch::jit::Stack make_results(
    const Inferred& inferred, const OperatorInfo& f, c10::ArrayRef<IValue> arguments, c10::DeviceIndex index) {
  std::vector<at::Tensor> given;
  // Fused optimizers take lists of thousands of tensors and return none.
  if (!inferred.results.empty()) given = list_device_tensors(f, arguments);
  const auto make = [&](const InferredTensor& t) {
    if (t.argument == InferredTensor::kUndefined) return at::Tensor();
    if (t.argument != InferredTensor::kNew) {
      const at::Tensor& argument = given[static_cast<size_t>(t.argument)];
      return t.is_view ? argument.as_strided(t.sizes, t.strides, t.offset) : argument;
    }
    return at::empty_strided(t.sizes, t.strides, at::TensorOptions(device(index)).dtype(t.dtype));
  };
  torch::jit::Stack results;
  for (const auto& result : inferred.results) {
    if (result.kind == Kind::Other) {
      results.push_back(result.value);
    } else if (result.kind == Kind::Tensor) {
      results.emplace_back(make(result.tensors.front()));
    } else {
      c10::List<at::Tensor> list;
      for (const auto& t : result.tensors) list.push_back(make(t));
      results.emplace_back(std::move(list));
    }
  }
  return results;
}

std::vector<CapturedAllocations::Draw> reserve_draws(
    const Inferred& inferred, c10::ArrayRef<IValue> arguments, c10::DeviceIndex index) {
  if (inferred.draws.empty()) return {};
  const auto given = std::find_if(arguments.begin(), arguments.end(), [](const IValue& v) { return v.isGenerator(); });
  const at::Generator generator = given == arguments.end() ? default_generator(index) : given->toGenerator();
  const auto state = static_cast<GeneratorImpl*>(generator.unsafeGetGeneratorImpl())->reserve(inferred.words);
  std::vector<CapturedAllocations::Draw> draws;
  for (const auto offset : inferred.draws) draws.push_back({state, offset});
  return draws;
}

}  // namespace hostdevice
