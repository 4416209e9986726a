#include "operators/registration.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "operators/alias.h"
#include "operators/boxed.h"
#include "operators/install.h"
#include "operators/op_table.h"
#include "operators/operator_info.h"
#include "operators/parts.h"
#include "operators/rows.h"
#include "runtime/device.h"

namespace hostdevice {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using torch::jit::Stack;

// By key and operator: whether the claiming kernel only calls the CPU kernel.
std::map<DispatchKey, std::map<std::string, bool>>& claims() {
  static auto* c = new std::map<DispatchKey, std::map<std::string, bool>>;
  return *c;
}

bool starts_with(const std::string& text, std::string_view start) {
  return text.compare(0, start.size(), start) == 0;
}

// ---- operators without a kernel -----------------------------------------------------------------------------------

void warn_fallback(const c10::OperatorHandle& op) {
  TORCH_WARN_ONCE(
      "The operator '", op.operator_name(),
      "' is not currently supported on the MPS backend and will fall back to run on the CPU. This may have "
      "performance implications.");
}

// Operators without an MPS kernel that PyTorch always runs on the CPU, whatever the environment says. It registers
// linalg_svd, not _linalg_svd, which has the gradient.
void always_fallback(const c10::OperatorHandle& op, DispatchKeySet, Stack* stack) {
  warn_fallback(op);
  run_on_cpu(op, DispatchKey::CPU, stack);
}

// The CUDA kernels of a library are in another build of it, so its CPU kernels replace them. If the program defines
// only a CPU kernel, there is no CUDA kernel to replace.
bool computes_on_cuda(const c10::OperatorHandle& op) {
  const auto& name = op.operator_name();
  // PyTorch's operators on quantized weights use CPU libraries, except for embedding bags that are not packed.
  if (starts_with(name.name, "quantized::") && name.name.find("_rowwise_offsets") == std::string::npos) return false;
  if (!op.hasKernelForDispatchKey(DispatchKey::CPU)) return false;
  const auto colons = name.name.find("::");
  if (!g_is_python_kernel || colons == std::string::npos) return true;
  const std::string overload = name.overload_name.empty() ? "" : "." + name.overload_name;
  return !g_is_python_kernel(name.name.substr(0, colons) + "/" + name.name.substr(colons + 2) + overload + "/CPU");
}

// Raise the error of PyTorch's dispatcher.
[[noreturn]] void throw_no_kernel(const c10::OperatorHandle& op, DispatchKey asked = kDense) {
  std::string known;
  for (uint8_t k = 1; k <= static_cast<uint8_t>(DispatchKey::EndOfRuntimeBackendKeys); k++) {
    const auto key = static_cast<DispatchKey>(k);
    if (key == asked || !op.hasComputedKernelForDispatchKey(key)) continue;
    known += (known.empty() ? "" : ", ") + std::string(c10::toString(key));
  }
  const std::string name = c10::toString(op.operator_name());
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "Could not run '", name, "' with arguments from the '", c10::toString(asked),
      "' backend. This could be because the operator doesn't exist for this backend, or was omitted during the "
      "selective/custom build process (if using custom build). If you are a Facebook employee using PyTorch on mobile, "
      "please visit https://fburl.com/ptmfixes for possible resolutions. '",
      name, "' is only available for these backends: [", known, "].\n\n", op.dumpComputedTable());
}

void fallback(const c10::OperatorHandle& op, DispatchKeySet, Stack* stack) {
  if (kIsCuda) {
    if (!computes_on_cuda(op)) throw_no_kernel(op);
    run_on_cpu(op, DispatchKey::CPU, stack);
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
  run_on_cpu(op, DispatchKey::CPU, stack);
}

// Refuse an operator whose only kernel in a CUDA build is CUDA's, which would look for a GPU.
void refuse(const c10::OperatorHandle& op, DispatchKeySet, Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "Could not run '", op.operator_name(), "' with arguments from the '", kName,
      "' backend. The virtual GPU computes with the CPU's kernels, and the CPU has none for this operator.");
}

// Whether only the CPU has a kernel, so that CUDA raises an error.
bool is_cpu_only(const std::string& operator_name, uint16_t flags) {
  return kIsCuda && flags && !find_row(row_name(operator_name)).is(kUsesCpuKernel);
}
struct CpuOnlyKernel final : c10::OperatorKernel {
  explicit CpuOnlyKernel(DispatchKey key) : key_(key) {}
  void operator()(const c10::OperatorHandle& op, DispatchKeySet, Stack*) {
    throw_no_kernel(op, key_);
  }

 private:
  DispatchKey key_;
};

// Composites that stay composites: they create views or new tensors on the device of their arguments, or read only
// metadata.
bool stays_composite(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  if (find_row(row_name(schema.name())).is(kStaysComposite) || op.hasTag(at::Tag::inplace_view)) return true;
  // The operators that it calls draw the GPU's numbers.
  if (op.hasTag(at::Tag::nondeterministic_seeded)) return true;
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

// Whether an operator changes a list in place, tensor by tensor; a GPU may use one kernel for the list.
bool changes_list(const c10::OperatorHandle& op) {
  const std::string& full = op.schema().name();
  return full.back() == '_' && op.schema().returns().empty() && find_row(row_name(full)).list_kernel != 0;
}

// ---- registration of the boxed kernel -----------------------------------------------------------------------------

struct KeyPair {
  DispatchKey device, cpu;
  uint16_t mps_flag;
  uint16_t alone_flag;
};
const KeyPair kKeys[] = {
    {kDense, DispatchKey::CPU, kMpsKernel, kCpuAlone},
    {kSparse, DispatchKey::SparseCPU, kMpsSparseKernel, 0},
    {kSparseCsr, DispatchKey::SparseCsrCPU, kMpsSparseCsrKernel, kSparseCsrCpuAlone},
    {kNested, DispatchKey::NestedTensorCPU, kMpsNestedKernel, 0},
    {kQuantized, DispatchKey::QuantizedCPU, 0, 0},  // MPS has none
};

// Each release adds MPS kernels. A test of a missing operator names it in this variable, without the overload and
// separated by commas, so that it stays missing.
bool is_disabled(const std::string& name) {
  static const std::string disabled = [] {
    const char* given = std::getenv("TORCHDEVICE_EMULATE_MPS_LACKS");
    return given ? "," + std::string(given) + "," : std::string();
  }();
  return disabled.find("," + name.substr(0, name.find('.')) + ",") != std::string::npos;
}

// Does for functions called by stack what `Recorded` does for typed ones.
struct RecordedBoxedKernel final : c10::OperatorKernel {
  RecordedBoxedKernel(Boxed kernel, DispatchKey key) : kernel_(kernel), key_(key) {}

  void operator()(const c10::OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
    const size_t count = op.schema().arguments().size();
    const auto arguments = torch::jit::last(*stack, count);
    if (C10_UNLIKELY(are_on_several_devices(arguments))) compare_devices(op, Stack(arguments.begin(), arguments.end()));
    if (is_intercepted()) {
      g_record(op, DispatchKeySet(key_), stack);
      return;
    }
    const bool lost = g_failed.load(std::memory_order_relaxed) != 0, profiled = is_profiled();
    const auto device = lost || profiled ? find_device(arguments) : c10::DeviceIndex(-1);
    if (C10_UNLIKELY(lost)) check_before_launch(device);
    DeviceWork launch;
    if (profiled) launch.begin(op.schema().name(), device);
    (*kernel_)(op, keys, stack);
  }

 private:
  static bool are_on_several_devices(c10::ArrayRef<c10::IValue> arguments) {
    std::optional<c10::Device> one;
    for (const auto& argument : arguments) {
      if (!argument.isTensor() || !argument.toTensor().defined()) continue;
      const auto device = argument.toTensor().device();
      if (one && *one != device) return true;
      one = device;
    }
    return false;
  }
  static c10::DeviceIndex find_device(c10::ArrayRef<c10::IValue> arguments) {
    for (const auto& argument : arguments)
      if (argument.isTensor() && is_device_tensor(argument.toTensor())) return argument.toTensor().device().index();
    return t_current_device;
  }

  Boxed kernel_;
  DispatchKey key_;
};

struct BoxedFunctionKernel final : c10::OperatorKernel {
  explicit BoxedFunctionKernel(Boxed kernel) : kernel_(kernel) {}
  void operator()(const c10::OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
    (*kernel_)(op, keys, stack);
  }

 private:
  Boxed kernel_;
};

// Collectives pass tensors to a process group, which handles CUDA tensors itself.
constexpr std::string_view kCollectives = "c10d::";

}  // namespace

std::function<bool(const std::string&)> g_is_python_kernel;

namespace {

// PyTorch checks signatures of typed kernels only.
void check_count(const char* name, size_t arguments) {
  const auto op = find_aten(name);
  TORCH_INTERNAL_ASSERT(
      op.has_value() && op->schema().arguments().size() == arguments, "a kernel of ", name, " takes ", arguments,
      " arguments");
}

}  // namespace

std::string aten_name(const std::string& name, const std::string& overload) {
  if (!starts_with(name, kAten)) return {};
  const std::string bare = name.substr(kAten.size());
  return overload.empty() ? bare : bare + "." + overload;
}

std::optional<c10::OperatorHandle> find_operator(const std::string& name) {
  const auto dot = name.find('.');
  return c10::Dispatcher::singleton().findSchema(
      {name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
}
std::optional<c10::OperatorHandle> find_aten(const char* name) {
  return find_operator(std::string(kAten) + name);
}

DispatchKey device_key(DispatchKey cpu) {
  for (const auto& k : kKeys)
    if (k.cpu == cpu) return k.device;
  return kDense;
}

bool has_signature(const char* name, const c10::FunctionSchema& signature) {
  const auto op = find_aten(name);
  return op.has_value() &&
      !c10::findSchemaDifferences(op->schema().cloneWithRealTypes(), signature.cloneWithRealTypes()).has_value();
}

void claim(DispatchKey key, const std::string& name, bool computes_as_cpu) {
  claims()[key][name] = computes_as_cpu;
}
bool is_claimed(DispatchKey key, const std::string& name) {
  return claims()[key].count(name) != 0;
}
bool computes_otherwise(DispatchKey key, const std::string& name) {
  const auto& found = claims()[key];
  const auto claimed = found.find(name);
  return claimed != found.end() && !claimed->second;
}

bool Registrar::calls_parts(const std::string& operator_name) {
  return find_row(row_name(operator_name)).is(kCallsParts);
}

torch::Library& Registrar::library() {
  if (!library_)
    library_ = new torch::Library(
        torch::Library::IMPL, space_, std::make_optional(key_), __FILE__, static_cast<uint32_t>(__LINE__));
  return *library_;
}

void Registrar::impl(const char* name, Boxed kernel) {
  set_or_register(name, c10::BoxedKernel::makeFromFunctor(std::make_unique<BoxedFunctionKernel>(kernel)));
}

void Registrar::add(const char* name, Boxed kernel, size_t arguments, bool recorded) {
  check_count(name, arguments);
  if (recorded)
    set_or_register(name, c10::BoxedKernel::makeFromFunctor(std::make_unique<RecordedBoxedKernel>(kernel, key_)));
  else
    impl(name, kernel);
}

void Registrar::set_or_register(const char* name, const c10::BoxedKernel& kernel) {
  if (set_kernel(key_, std::string(space_) + "::" + name, kernel)) return;
  library().impl(name, torch::CppFunction::makeFromBoxedKernel(kernel));
  claim(key_, name);
}

void run_without_own_kernel(const c10::OperatorHandle& op, DispatchKey key, Stack* stack) {
  for (const auto& k : kKeys) {
    if (k.device != key || !op.hasKernelForDispatchKey(k.cpu)) continue;
    run_on_cpu(op, k.cpu, stack);
    return;
  }
  throw_no_kernel(op, key);
}

void register_boxed_kernels() {
  auto& dispatcher = c10::Dispatcher::singleton();
  std::vector<std::unique_ptr<torch::Library>> libraries;
  for (const auto& k : kKeys)
    libraries.push_back(
        std::make_unique<torch::Library>(
            torch::Library::IMPL, "aten", std::make_optional(k.device), __FILE__, static_cast<uint32_t>(__LINE__)));
  for (const auto& full : dispatcher.getAllOpNames()) {
    const std::string name = aten_name(full.name, full.overload_name);
    if (name.empty()) continue;
    const auto op = dispatcher.findOp(full);
    if (!op.has_value() || !op->hasSchema()) continue;
    const OpRow* row = find_op_row(name.c_str());
    for (size_t i = 0; i < libraries.size(); i++) {
      const auto& k = kKeys[i];
      if (is_claimed(k.device, name)) continue;
      if (row && is_cpu_only(full.name, row->flags & k.alone_flag)) {
        libraries[i]->impl(
            name.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<CpuOnlyKernel>(k.device)));
        continue;
      }
      bool wanted = op->hasKernelForDispatchKey(k.cpu);
      if (kIsCuda) {
        const bool composite = op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd);
        if (k.device == kDense && !wanted && composite && changes_list(*op)) {
          libraries[i]->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&change_list>());
          continue;
        }
        // CUDA has few kernels for quantized tensors; for the rest PyTorch's dispatcher raises.
        if (k.device == kQuantized && row && !(row->flags & kCudaQuantizedKernel)) continue;
        if (k.device == kDense && !wanted && composite) wanted = !stays_composite(*op);
        // Only a CUDA build of torch has kernels here already.
        if (!wanted && op->hasKernelForDispatchKey(k.device)) {
          if (name.rfind("miopen_", 0) == 0) continue;  // it only raises that MIOpen is missing
          wanted = composite || op->hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd);
          if (!wanted) {
            libraries[i]->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&refuse>());
            continue;
          }
        }
      } else {
        wanted = wanted && row && (row->flags & k.mps_flag) && !is_disabled(name);
      }
      if (!wanted) continue;
      libraries[i]->impl(name.c_str(), boxed_kernel(k.cpu));
    }
  }
  if (!kIsCuda) {
    const auto lacks_kernel = [](const char* name) {
      const auto* row = find_op_row(name);
      return row && !(row->flags & kMpsKernel);
    };
    std::vector<const char*> sent = {"embedding_renorm_", "_slow_conv2d_forward"};
    // Since 2.15 _linalg_svd has an MPS kernel.
    if (lacks_kernel("_linalg_svd")) sent.insert(sent.end(), {"linalg_svd", "linalg_svd.U"});
    for (const char* name : sent)
      if (lacks_kernel(name)) libraries[0]->impl(name, torch::CppFunction::makeFromBoxedFunction<&always_fallback>());
  }
  auto any = std::make_unique<torch::Library>(
      torch::Library::IMPL, "_", std::make_optional(kDense), __FILE__, static_cast<uint32_t>(__LINE__));
  any->fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
  libraries.push_back(std::move(any));
  // The registrations last as long as the process.
  for (auto& l : libraries) static_cast<void>(l.release());
}

void take_over_foreign_kernels(const std::function<bool(const std::string&)>& keep) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& full : dispatcher.getAllOpNames()) {
    if (starts_with(full.name, kAten) || starts_with(full.name, kCollectives)) continue;
    const auto op = dispatcher.findOp(full);
    if (!op.has_value() || !op->hasSchema()) continue;
    const auto colons = full.name.find("::");
    if (colons == std::string::npos) continue;
    const std::string space = full.name.substr(0, colons), rest = full.name.substr(colons + 2);
    const std::string name = full.overload_name.empty() ? rest : rest + "." + full.overload_name;
    for (const auto& k : kKeys) {
      if (!op->hasKernelForDispatchKey(k.device)) continue;
      const std::string entry = space + "/" + name + "/" + c10::toString(k.device);
      if (is_claimed(k.device, entry) || keep(entry)) continue;
      claim(k.device, entry);
      const bool computes = op->hasKernelForDispatchKey(k.cpu) ||
          op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
          op->hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd);
      auto* library = new torch::Library(
          torch::Library::IMPL, space, std::make_optional(k.device), __FILE__, static_cast<uint32_t>(__LINE__));
      library->impl(
          name.c_str(), computes ? boxed_kernel(k.cpu) : torch::CppFunction::makeFromBoxedFunction<&refuse>());
    }
  }
}

}  // namespace hostdevice
