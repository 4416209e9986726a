#include "runtime/mps_storage.h"

#include <ATen/core/function_schema.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "runtime/device.h"

namespace hostdevice {
namespace {

enum class Mode { kUnprotected, kShared, kPrivate };

Mode mode() {
  static const Mode chosen = [] {
    constexpr char kStorage[] = "TORCHDEVICE_EMULATE_MPS_STORAGE";
    const char* given = std::getenv(kStorage);
    if (!given) return Mode::kUnprotected;
    const bool is_shared = std::strcmp(given, "shared") == 0;
    TORCH_CHECK_VALUE(
        is_shared || std::strcmp(given, "private") == 0, kStorage, "=", given, ": expected shared or private");
    return is_shared ? Mode::kShared : Mode::kPrivate;
  }();
  return chosen;
}

// The segments, and what decides whether the host can access them. Leaked: tensors outlive static destruction.
struct Protection {
  std::mutex mutex;
  std::map<char*, size_t> segments;
  int operators = 0;  // that run now
  bool is_synchronized = false;
  bool is_open = false;

  static void apply(char* base, size_t size, bool open) {
    const int failed = mprotect(base, size, open ? PROT_READ | PROT_WRITE : PROT_NONE);
    TORCH_CHECK(!failed, "the emulated Apple GPU's memory cannot be protected: ", std::strerror(errno));
  }
  void update() {
    const bool open = operators > 0 || (is_synchronized && mode() == Mode::kShared);
    if (open == is_open) return;
    is_open = open;
    for (const auto& [base, size] : segments) apply(base, size, open);
  }
};

Protection& protection() {
  static auto* made = new Protection;
  return *made;
}

bool is_on_gpu(const c10::IValue& value) {
  const auto holds = [](const at::Tensor& t) { return t.defined() && t.device().type() == kType; };
  if (value.isTensor()) return holds(value.toTensor());
  if (value.isDevice()) return value.toDevice().type() == kType;
  if (value.isStorage()) return value.toStorage().device().type() == kType;
  if (!value.isList()) return false;
  for (const c10::IValue& one : value.toListRef())
    if (is_on_gpu(one)) return true;
  return false;
}

bool is_view(const c10::FunctionSchema& schema) {
  for (const auto& result : schema.returns()) {
    const auto* alias = result.alias_info();
    if (alias && !alias->isWrite()) return true;
  }
  return false;
}

// Return whether an operator's kernel accesses memory. Views do not; operators of other libraries do it through ours.
bool accesses_memory(const at::RecordFunction& call) {
  if (std::strncmp(call.name(), "aten::", 6) != 0 && std::strncmp(call.name(), "hostdevice", 10) != 0) return false;
  thread_local std::unordered_map<std::string, bool> known;
  const auto name = call.operator_name();
  if (!name) return false;
  const auto [entry, is_new] = known.emplace(c10::toString(*name), true);
  if (is_new) {
    const auto schema = call.operator_schema();
    entry->second = !schema || !is_view(*schema);
  }
  return entry->second;
}

// While it exists, the GPU works.
struct Working final : at::ObserverContext {
  Working() {
    auto& p = protection();
    const std::lock_guard<std::mutex> lock(p.mutex);
    p.operators++;
    p.is_synchronized = false;
    p.update();
  }
  ~Working() override {
    auto& p = protection();
    const std::lock_guard<std::mutex> lock(p.mutex);
    p.operators--;
    p.update();
  }
};

std::unique_ptr<at::ObserverContext> begin_operator(const at::RecordFunction& call) {
  if (!accesses_memory(call)) return nullptr;
  for (const c10::IValue& value : call.inputs())
    if (is_on_gpu(value)) return std::make_unique<Working>();
  return nullptr;
}

void end_operator(const at::RecordFunction&, at::ObserverContext*) {}

}  // namespace

void install_mps_protection() {
  if (mode() == Mode::kUnprotected) return;
  at::addGlobalCallback(
      at::RecordFunctionCallback(&begin_operator, &end_operator).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

void add_mps_segment(char* base, size_t size) {
  if (mode() == Mode::kUnprotected) return;
  auto& p = protection();
  const std::lock_guard<std::mutex> lock(p.mutex);
  p.segments.emplace(base, size);
  if (!p.is_open) Protection::apply(base, size, false);
}

void remove_mps_segment(char* base) {
  if (mode() == Mode::kUnprotected) return;
  auto& p = protection();
  const std::lock_guard<std::mutex> lock(p.mutex);
  p.segments.erase(base);
}

void note_mps_synchronized() {
  if (mode() == Mode::kUnprotected) return;
  auto& p = protection();
  const std::lock_guard<std::mutex> lock(p.mutex);
  p.is_synchronized = true;
  p.update();
}

}  // namespace hostdevice
