#include "operators/assertions.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/full_like.h>
#include <c10/util/ScopeExit.h>

#include <cstdint>
#include <cstring>

#include "operators/boxed.h"
#include "operators/operator_info.h"
#include "operators/rules.h"
#include "operators/shapes.h"
#include "operators/tensors.h"
#include "runtime/captured_allocations.h"
#include "runtime/failure.h"

namespace hostdevice {
namespace {

using rules::Arguments;

struct Assertion {
  const char* name;
  const char* message;   // substring of the CPU kernel's message
  const char* location;  // file, line and function in torch 2.11
  const char* condition;
  size_t argument = 0;                              // position of the argument with invalid elements
  double replacement = 0;                           // value that replaces them, so that the kernel computes
  bool (*holds)(const Arguments& given) = nullptr;  // whether CUDA uses this kernel; null: always
};

constexpr Assertion kAssertions[] = {
#include "contract/asserts.inc"
};
constexpr const char* kNoSingleValue = "Boolean value of Tensor with";
// A check without reading elements, so CUDA raises it on the host too.
constexpr const char* kEmptyDimension = "out of bounds for dimension with size 0";

// A message that CUDA words differently from the CPU.
struct MessageRow {
  const char* name;
  const char* message;      // substring of the CPU kernel's message
  const char* kernel;       // if CUDA has no kernel for the dtype of an argument: the kernel's name
  size_t argument;          // position of that argument
  const char* replacement;  // otherwise: replaces `message`, or the whole message if `whole`
  bool whole = false;
};
constexpr MessageRow kMessageRows[] = {
#include "contract/words.inc"
};

void throw_cuda_message(const OperatorInfo& f, const std::string& message, const std::vector<c10::IValue>& arguments) {
  for (const auto& row : kMessageRows) {
    const auto location = message.find(row.message);
    if (f.name != row.name || location == std::string::npos) continue;
    if (row.kernel)
      TORCH_CHECK_NOT_IMPLEMENTED(
          false, '"', row.kernel, "\" not implemented for '",
          c10::toString(arguments[row.argument].toTensor().scalar_type()), "'");
    std::string text = message;
    TORCH_CHECK(false, row.whole ? row.replacement : text.replace(location, std::strlen(row.message), row.replacement));
  }
}

const Assertion* find_assertion(const OperatorInfo& f, const std::string& message, const Arguments& given) {
  for (const char* host_message : {kNoSingleValue, kEmptyDimension})
    if (message.find(host_message) != std::string::npos) return nullptr;
  for (const auto& row : kAssertions)
    if (f.name == row.name && message.find(row.message) != std::string::npos && (!row.holds || row.holds(given)))
      return &row;
  // A composite runs as a whole and raises the error of an operator that it calls.
  if (!f.is_composite) return nullptr;
  for (const auto& row : kAssertions)
    if (*row.message && !row.holds && message.find(row.message) != std::string::npos) return &row;
  return nullptr;
}

// Return the arguments with the invalid elements replaced by a value that the kernel accepts.
torch::jit::Stack replace_invalid_elements(
    const OperatorInfo& f, const Assertion& row, const std::vector<c10::IValue>& arguments) {
  torch::jit::Stack stack(arguments.begin(), arguments.end());
  stack[row.argument] = map_tensors(stack[row.argument], f.args[row.argument].kind, [&](const at::Tensor& t) {
    return f.is_indexing && t.scalar_type() == at::kBool ? t : at::full_like(t, row.replacement);
  });
  return stack;
}

// Whether the message is torch's own, for an assertion to which the program gave no message.
bool is_torch_message(const std::string& message) {
  return message.rfind("Expected Tensor with single nonzero value", 0) == 0;
}

// Set while this thread retries with replaced elements: an error then is not a device-side assertion.
thread_local bool t_replaced = false;

bool find_results(
    const c10::OperatorHandle& op, const OperatorInfo& f, c10::DispatchKey target, const Assertion& row,
    const std::vector<c10::IValue>& arguments, c10::DeviceIndex index, torch::jit::Stack& results) {
  const auto tried = c10::make_scope_exit([] { t_replaced = false; });
  t_replaced = true;
  try {
    results = replace_invalid_elements(f, row, arguments);
    run_on_cpu(op, target, &results);
    return true;
  } catch (const c10::Error&) {  // the kernel may accept no value at all
  }
  // The first call takes seconds: many meta kernels are written in Python.
  try {
    results = make_results_by_shape(op, f, arguments, index);
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}

}  // namespace

bool may_assert(const std::string& name) {
  for (const auto& row : kAssertions)
    if (name == row.name) return true;
  for (const auto& row : kMessageRows)
    if (name == row.name) return true;
  return false;
}

bool assert_on_device(
    const c10::OperatorHandle& op, const OperatorInfo& f, c10::DispatchKey target,
    const std::vector<c10::IValue>& arguments, c10::DeviceIndex index, const c10::Error& error,
    torch::jit::Stack* stack, size_t base) {
  if (t_replaced) return false;
  const std::string message = error.what_without_backtrace();
  const auto* row = find_assertion(f, message, arguments);
  if (!row && !arguments.empty()) throw_cuda_message(f, message, arguments);
  if (!row) return false;
  stack->resize(base);
  torch::jit::Stack results;
  // During a replay the results exist already.
  const bool found =
      t_captured.replaying || (!arguments.empty() && find_results(op, f, target, *row, arguments, index, results));
  // A captured call does not run on a GPU, so it finds no invalid element.
  if (t_captured.recording) {
    if (!found) return false;
  } else {
    const bool has_own_message = !*row->message && !is_torch_message(message);
    fail_assertion(
        index, row->location, has_own_message ? message : row->condition,
        c10::toString(op.operator_name()) + ": " + message);
    if (!found) throw_failure(index);
  }
  for (auto& v : results) stack->push_back(std::move(v));
  return true;
}

void assert_element(c10::DeviceIndex index, const char* location, const char* condition, const std::string& cause) {
  if (!t_captured.recording) fail_assertion(index, location, condition, cause);
}

}  // namespace hostdevice
