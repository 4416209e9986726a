#include "rehearsal/rehearse.h"

#include <ATen/ExpandUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "inference/inference.h"
#include "operators/alias.h"
#include "operators/boxed.h"
#include "operators/device_check.h"
#include "operators/dtypes.h"
#include "operators/operator_info.h"
#include "operators/random_launch.h"
#include "operators/recorded.h"
#include "operators/tensors.h"
#include "rehearsal/own_results.h"
#include "rehearsal/values.h"
#include "runtime/activities.h"
#include "runtime/allocator.h"
#include "runtime/captures.h"
#include "runtime/generator.h"
#include "runtime/host.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

using at::Tensor;
using c10::IValue;
using torch::jit::Stack;
using Arguments = c10::ArrayRef<IValue>;

// The function that was replaced (recorded.h).
Record g_next = nullptr;
ReportUnknown g_report = nullptr;
std::atomic<bool> g_is_rehearsed{false};

template <size_t N>
bool is_one_of(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Names without the underscore of the in-place form.
// They move or change memory without computing.
constexpr std::array<std::string_view, 5> kOnHost = {
    "set", "resize", "resize_as", "resize_output", "_cudnn_rnn_flatten_weight"};
// They write all elements of their first argument, and read none.
constexpr std::array<std::string_view, 12> kOverwrite = {"copy",    "fill",       "zero",      "normal",
                                                         "uniform", "random",     "bernoulli", "exponential",
                                                         "cauchy",  "log_normal", "geometric", "eye"};
// The gradients of a rehearsal are finite, whatever they are: the flag that this operator sets is known.
constexpr std::string_view kFindsInfinities = "_amp_foreach_non_finite_check_and_unscale";

bool is_in_place(const c10::OperatorHandle& op) {
  return op.schema().name().back() == '_';
}

bool is_output(const c10::OperatorHandle& op, size_t i) {
  const auto& argument = op.schema().arguments()[i];
  return argument.kwarg_only() && argument.alias_info() && argument.alias_info()->isWrite();
}

// What is known of the tensors of a call.
struct Given {
  bool is_large = false;       // a tensor's memory is not computed
  bool is_uncomputed = false;  // a value that the call reads is not computed
  bool is_plain = true;
  bool is_mixed = false;  // several devices
};
Given look_at(const c10::OperatorHandle& op, const OperatorInfo& f, Arguments arguments) {
  Given given;
  const bool overwrites = is_in_place(op) && is_one_of(f.name, kOverwrite);
  c10::DeviceIndex only = -1;
  bool has_host_memory = false;
  for (const auto i : f.interesting) {
    const bool is_read = !(overwrites && i == 0) && !is_output(op, i);
    each_tensor(arguments[i], f.args[i].kind, [&](const Tensor& t) {
      if (!is_device_tensor(t)) {
        has_host_memory = has_host_memory || t.dim() > 0;
        return;
      }
      given.is_mixed = given.is_mixed || (only >= 0 && only != t.device().index());
      only = t.device().index();
      given.is_plain = given.is_plain && is_plain(t);
      given.is_large = given.is_large || is_large(t);
      given.is_uncomputed = given.is_uncomputed || (is_read && is_uncomputed(t));
    });
  }
  given.is_mixed = given.is_mixed || (has_host_memory && only >= 0);
  return given;
}

bool is_large_result(const InferredTensor& t) {
  if (t.argument != InferredTensor::kNew) return false;
  return static_cast<size_t>(c10::multiply_integers(t.sizes)) * t.dtype.itemsize() > kMostComputed;
}

// Whether a call of small tensors has a large result.
bool has_large_results(
    const c10::OperatorHandle& op, const OperatorInfo& f, c10::DispatchKeySet keys, c10::DeviceIndex index,
    Arguments arguments) {
  if (is_in_place(op) || find_own_results(op.schema().name())) return false;
  try {
    const auto inferred = infer(op, f, keys, index, arguments, InferBy::kShapes);
    if (!inferred) return false;
    for (const auto& t : inferred->resized)
      if (static_cast<size_t>(c10::multiply_integers(t.sizes)) * t.dtype.itemsize() > kMostComputed) return true;
    for (const auto& result : inferred->results)
      if (std::any_of(result.tensors.begin(), result.tensors.end(), is_large_result)) return true;
  } catch (const std::exception&) {
    // The operator itself raises CUDA's error.
  }
  return false;
}

// Note which memory has computed values after a call.
void mark_results(
    const c10::OperatorHandle& op, const OperatorInfo& f, Arguments arguments, Arguments results, bool is_uncomputed) {
  const bool overwrites = is_in_place(op) && is_one_of(f.name, kOverwrite);
  if (is_uncomputed)
    for (const auto& v : results)
      each_result(v, [](const Tensor& t) {
        if (is_device_tensor(t)) mark_uncomputed(t);
      });
  for (const auto i : f.interesting) {
    if (!f.args[i].changed || (f.name == kFindsInfinities && f.args[i].kind == Kind::Tensor)) continue;
    each_tensor(arguments[i], f.args[i].kind, [&](const Tensor& t) {
      if (!is_device_tensor(t)) return;
      if (is_uncomputed)
        mark_uncomputed(t);
      else if ((overwrites || is_output(op, i)) && is_plain(t) && t.nbytes() >= t.storage().nbytes())
        mark_computed(t);
    });
  }
}

bool reads_values(const c10::OperatorHandle& op, const OperatorInfo& f, Arguments arguments) {
  if (f.only_reads || f.reads_back) return true;
  return op.schema().name() == "aten::copy_" && !is_device_tensor(arguments[0].toTensor());
}

// Compute a call of small tensors.
void compute(
    const c10::OperatorHandle& op, const OperatorInfo& f, c10::DispatchKeySet keys, bool is_uncomputed, Stack* stack) {
  const size_t base = stack->size() - f.args.size();
  const std::vector<IValue> arguments(stack->begin() + static_cast<ptrdiff_t>(base), stack->end());
  if (is_uncomputed && reads_values(op, f, arguments)) g_report(Unknown::kValue, op.schema().name());
  g_next(op, keys, stack);
  mark_results(op, f, arguments, Arguments(*stack).slice(base), is_uncomputed);
}

// Give a tensor other sizes. What it held is not kept: it was not computed.
void resize(const Tensor& t, const InferredTensor& to) {
  auto* const impl = t.unsafeGetTensorImpl();
  auto* const storage = impl->unsafe_storage().unsafeGetStorageImpl();
  size_t last = to.sizes.empty() || c10::multiply_integers(to.sizes) > 0 ? 1 : 0;
  for (size_t d = 0; last && d < to.sizes.size(); d++) last += static_cast<size_t>((to.sizes[d] - 1) * to.strides[d]);
  const size_t bytes = (last + static_cast<size_t>(impl->storage_offset())) * impl->itemsize();
  if (bytes > storage->nbytes()) {
    storage->set_data_ptr_noswap(allocate(bytes, t.device().index()));
    storage->set_nbytes(bytes);
  }
  impl->set_sizes_and_strides(to.sizes, to.strides);
}

// Advance the generator as far as the kernel would.
void advance_generator(const OperatorInfo& f, Arguments arguments, c10::DeviceIndex index) {
  const auto is_generator = [](const ArgumentInfo& a) { return a.kind == Kind::Generator; };
  const auto found = std::find_if(f.args.begin(), f.args.end(), is_generator);
  if ((found == f.args.end() && f.name != "native_dropout") || !arguments[0].isTensor()) return;
  const auto& given = arguments[found == f.args.end() ? 0 : static_cast<size_t>(found - f.args.begin())];
  const at::Generator generator = given.isGenerator() ? given.toGenerator() : default_generator(index);
  const auto numel = arguments[0].toTensor().numel();
  if (numel && generator.device().type() == kType)
    static_cast<GeneratorImpl*>(generator.unsafeGetGeneratorImpl())->reserve(Launch(numel, 4).words());
}

[[noreturn]] void refuse(const c10::OperatorHandle& op, const char* why) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "a rehearsal cannot infer the results of '", op.operator_name(), "' with large tensors: ", why,
      ". Run without --rehearse, use smaller tensors, or register a meta kernel (torch.library.register_fake)");
}

// Copy without computing. Only a host tensor gets values, which stand for those that were not computed.
Stack skip_copy(const c10::OperatorHandle& op, Arguments arguments) {
  const Tensor &self = arguments[0].toTensor(), &source = arguments[1].toTensor();
  TORCH_CHECK(
      at::is_expandable_to(source.sizes(), self.sizes()), "The size of tensor a ", self.sizes(),
      " must match the size of tensor b ", source.sizes(), " in a copy");
  const bool reads = is_device_tensor(source);
  if (!is_device_tensor(self)) g_report(Unknown::kValue, op.schema().name());
  if (!is_device_tensor(self) || (reads && !is_large(self))) fill_with_stand_in(self, "copy");
  if (is_device_tensor(self)) mark_uncomputed(self);
  return {self};
}

Stack read_stand_in(const c10::OperatorHandle& op, const OperatorInfo& f, Arguments arguments) {
  g_report(Unknown::kValue, op.schema().name());
  if (op.schema().returns()[0].type()->kind() == c10::TypeKind::BoolType) return {true};
  const auto type = arguments[0].isTensor() ? arguments[0].toTensor().scalar_type() : at::kFloat;
  const bool is_one = get_stand_in(f.name, type).toLong() != 0;
  if (c10::isFloatingType(type)) return {c10::Scalar(is_one ? 1.0 : 0.0)};
  if (type == at::kBool) return {c10::Scalar(is_one)};
  return {get_stand_in(f.name, type)};
}

// Give a convolution's results the layout of cuDNN's, which meta kernels do not know: channels come last if they do in
// the input or the weight, never in float64.
void set_layout_of_convolution(const OperatorInfo& f, Arguments arguments, const Stack& results) {
  const bool is_backward = f.name == "convolution_backward";
  if (!is_backward && f.name != "convolution") return;
  const Tensor &input = arguments[is_backward].toTensor(), &weight = arguments[1 + is_backward].toTensor();
  const auto format = input.dim() == 5 ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast;
  if (input.dim() < 4 || input.scalar_type() == at::kDouble) return;
  if (input.suggest_memory_format() != format && weight.suggest_memory_format() != format) return;
  for (const auto& v : results)
    if (v.isTensor() && v.toTensor().defined() && v.toTensor().dim() == input.dim())
      v.toTensor().unsafeGetTensorImpl()->empty_tensor_restride(format);
}

// Return the results of a call: their shapes, memory and types.
Stack infer_results(
    const c10::OperatorHandle& op, const OperatorInfo& f, c10::DispatchKeySet keys, c10::DeviceIndex index,
    std::vector<IValue>& arguments) {
  const std::string& name = op.schema().name();
  if (const auto* own = find_own_results(name)) {
    if (own->depends_on_elements) g_report(Unknown::kSize, name);
    return own->make(arguments);
  }
  if (f.is_indexing)
    for (auto& v : arguments)
      if (replace_masks(v) && !is_in_place(op)) g_report(Unknown::kSize, name);
  const auto inferred = infer(op, f, keys, index, arguments, InferBy::kShapes);
  if (is_in_place(op)) return f.returns ? Stack{arguments[0]} : Stack();
  if (!inferred) refuse(op, "PyTorch has neither a meta kernel nor a decomposition for it");
  if (!inferred->resized.empty()) {
    const auto given = list_device_tensors(f, arguments);
    for (const auto& t : inferred->resized)
      if (t.argument >= 0) resize(given[static_cast<size_t>(t.argument)], t);
  }
  Stack results = make_results(*inferred, f, arguments, index);
  set_layout_of_convolution(f, arguments, results);
  return results;
}

// Give small memory that a call writes values that stand for those that were not computed.
void fill_small_results(const c10::OperatorHandle& op, const OperatorInfo& f, Arguments arguments, Arguments results) {
  std::vector<Tensor> kept;
  for (const auto i : f.interesting)
    each_tensor(arguments[i], f.args[i].kind, [&](const Tensor& t) {
      if (!is_output(op, i)) kept.push_back(t);
    });
  const auto shares = [&](const Tensor& t) {
    return std::any_of(kept.begin(), kept.end(), [&](const Tensor& other) { return other.is_same(t); });
  };
  for (const auto& v : results)
    each_result(v, [&](const Tensor& t) {
      if (is_device_tensor(t) && !is_large(t) && !shares(t)) fill_with_stand_in(t, f.name);
    });
}

// Return a call's results without computing it.
void skip(
    const c10::OperatorHandle& op, const OperatorInfo& f, c10::DispatchKeySet keys, c10::DeviceIndex index,
    const Given& given, Stack* stack) {
  const size_t base = stack->size() - f.args.size();
  if (!given.is_plain || keys != c10::DispatchKeySet(kDense))
    refuse(op, "sparse, nested and quantized tensors have no shapes that are known before computing");
  std::vector<IValue> arguments(stack->begin() + static_cast<ptrdiff_t>(base), stack->end());
  const bool is_copy = op.schema().name() == "aten::copy_";
  DeviceWork launch;
  if (is_profiled()) launch.begin(op.schema().name(), index);
  Stack results;
  if (is_copy) {
    results = skip_copy(op, arguments);
  } else {
    if (given.is_mixed) check_devices(op, f, *stack, base, false);
    if (f.row->takes != ~Types{0}) check_dtype(*f.row, *stack, base);
    if (f.only_reads || f.reads_back) {
      results = read_stand_in(op, f, arguments);
    } else {
      const c10::impl::ExcludeDispatchKeyGuard below(
          c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset | c10::python_ks);
      results = infer_results(op, f, keys, index, arguments);
      advance_generator(f, arguments, index);
      fill_small_results(op, f, arguments, results);
      mark_results(op, f, arguments, results, true);
    }
  }
  if (const auto capture = has_captures() ? current_capture(index) : nullptr)
    count_work(*capture, stream_state(index, current_stream(index)));
  stack->resize(base);
  stack->insert(stack->end(), results.begin(), results.end());
}

void rehearse(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const OperatorInfo& f = get_operator_info(op);
  if (!g_is_rehearsed.load() || !f.launches || is_one_of(f.name, kOnHost)) return g_next(op, keys, stack);
  const auto arguments = torch::jit::last(*stack, f.args.size());
  const Given given = look_at(op, f, arguments);
  const auto index = device_of_call(f, arguments);
  if (given.is_large || (given.is_plain && has_large_results(op, f, keys, index, arguments)))
    skip(op, f, keys, index, given, stack);
  else
    compute(op, f, keys, given.is_uncomputed, stack);
}

}  // namespace

void start_rehearsal(ReportUnknown report) {
  g_report = report;
  if (!g_next) {
    g_next = std::exchange(g_record, &rehearse);
    watch_memory();
  }
  if (g_is_rehearsed.exchange(true)) return;
  g_only_promises = true;
  g_interceptors.fetch_add(1);
  // Kernels of other code would touch memory. The calls of a graph are those that were computed when it was captured.
  g_defer.store([](StreamState&, const char* name, std::function<void()> work, Arrival) {
    if (name != std::string_view("cudaGraphLaunch")) return g_report(Unknown::kKernel, name);
    const c10::impl::ExcludeDispatchKeyGuard below(
        c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset | c10::python_ks);
    const InNode whole;
    work();
  });
}

void stop_rehearsal() {
  if (!g_is_rehearsed.exchange(false)) return;
  g_only_promises = false;
  g_interceptors.fetch_sub(1);
  g_defer.store(nullptr);
}

}  // namespace hostdevice
