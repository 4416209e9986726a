#include "operators/assertions.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/full_like.h>
#include <c10/util/ScopeExit.h>

#include <cstdint>
#include <cstring>

#include "operators/boxed.h"
#include "operators/facts.h"
#include "operators/rules.h"
#include "operators/shapes.h"
#include "operators/tensors.h"
#include "runtime/failure.h"
#include "runtime/tape.h"

namespace hostdevice {
namespace {

using rules::Arguments;

struct Assertion {
  const char* name;
  const char* words;  // substring of the CPU kernel's message
  const char* place;  // file, line and function in torch 2.11
  const char* condition;
  size_t argument = 0;                              // position of the argument with invalid elements
  double harmless = 0;                              // value that replaces them, so that the kernel computes
  bool (*holds)(const Arguments& given) = nullptr;  // whether CUDA uses this kernel; null: always
};

constexpr Assertion kAssertions[] = {
#include "contract/asserts.inc"
};
constexpr const char* kNoSingleValue = "Boolean value of Tensor with";
// A check without reading elements, so CUDA raises it on the host too.
constexpr const char* kNothingThere = "out of bounds for dimension with size 0";

// A message that CUDA words differently from the CPU.
struct Wording {
  const char* name;
  const char* words;    // substring of the CPU kernel's message
  const char* kernel;   // if CUDA has no kernel for the dtype of an argument: the kernel's name
  size_t argument;      // position of that argument
  const char* instead;  // otherwise: replaces `words`, or the whole message if `whole`
  bool whole = false;
};
constexpr Wording kWordings[] = {
#include "contract/words.inc"
};

void say_as_cuda(const Facts& f, const std::string& words, const std::vector<c10::IValue>& arguments) {
  for (const auto& row : kWordings) {
    const auto place = words.find(row.words);
    if (f.name != row.name || place == std::string::npos) continue;
    if (row.kernel)
      TORCH_CHECK_NOT_IMPLEMENTED(
          false, '"', row.kernel, "\" not implemented for '",
          c10::toString(arguments[row.argument].toTensor().scalar_type()), "'");
    std::string said = words;
    TORCH_CHECK(false, row.whole ? row.instead : said.replace(place, std::strlen(row.words), row.instead));
  }
}

const Assertion* find_assertion(const Facts& f, const std::string& words, const Arguments& given) {
  for (const char* hosts : {kNoSingleValue, kNothingThere})
    if (words.find(hosts) != std::string::npos) return nullptr;
  for (const auto& row : kAssertions)
    if (f.name == row.name && words.find(row.words) != std::string::npos && (!row.holds || row.holds(given)))
      return &row;
  // A composite runs as a whole and raises the error of an operator that it calls.
  if (!f.composite) return nullptr;
  for (const auto& row : kAssertions)
    if (*row.words && !row.holds && words.find(row.words) != std::string::npos) return &row;
  return nullptr;
}

// Return the arguments with the invalid elements replaced by a value that the kernel accepts.
torch::jit::Stack harmless(const Facts& f, const Assertion& row, const std::vector<c10::IValue>& arguments) {
  torch::jit::Stack stack(arguments.begin(), arguments.end());
  stack[row.argument] = map_tensors(stack[row.argument], f.args[row.argument].kind, [&](const at::Tensor& t) {
    return f.indexing && t.scalar_type() == at::kBool ? t : at::full_like(t, row.harmless);
  });
  return stack;
}

// Whether the message is torch's own, for an assertion to which the program gave no message.
bool starts_of_torch(const std::string& words) {
  return words.rfind("Expected Tensor with single nonzero value", 0) == 0;
}

// Set while this thread retries with replaced elements: an error then is not a device-side assertion.
thread_local bool t_replaced = false;

bool find_results(
    const c10::OperatorHandle& op, const Facts& f, c10::DispatchKey target, const Assertion& row,
    const std::vector<c10::IValue>& arguments, c10::DeviceIndex index, torch::jit::Stack& results) {
  const auto tried = c10::make_scope_exit([] { t_replaced = false; });
  t_replaced = true;
  try {
    results = harmless(f, row, arguments);
    run_on_cpu(op, target, &results);
    return true;
  } catch (const c10::Error&) {  // the kernel may accept no value at all
  }
  // The first call takes seconds: many meta kernels are written in Python.
  try {
    results = results_by_shape(op, f, arguments, index);
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}

}  // namespace

bool may_assert(const std::string& name) {
  for (const auto& row : kAssertions)
    if (name == row.name) return true;
  for (const auto& row : kWordings)
    if (name == row.name) return true;
  return false;
}

bool assert_on_device(
    const c10::OperatorHandle& op, const Facts& f, c10::DispatchKey target, const std::vector<c10::IValue>& arguments,
    c10::DeviceIndex index, const c10::Error& error, torch::jit::Stack* stack, size_t base) {
  if (t_replaced) return false;
  const std::string words = error.what_without_backtrace();
  const auto* row = find_assertion(f, words, arguments);
  if (!row && !arguments.empty()) say_as_cuda(f, words, arguments);
  if (!row) return false;
  stack->resize(base);
  torch::jit::Stack results;
  // During a replay the results exist already.
  const bool found =
      t_tape.playing || (!arguments.empty() && find_results(op, f, target, *row, arguments, index, results));
  // A captured call does not run on a GPU, so it finds no invalid element.
  if (t_tape.recording) {
    if (!found) return false;
  } else {
    const bool own_words = !*row->words && !starts_of_torch(words);
    fail_assertion(
        index, row->place, own_words ? words : row->condition, c10::toString(op.operator_name()) + ": " + words);
    if (!found) throw_failure(index);
  }
  for (auto& v : results) stack->push_back(std::move(v));
  return true;
}

void assert_element(c10::DeviceIndex index, const char* place, const char* condition, const std::string& cause) {
  if (!t_tape.recording) fail_assertion(index, place, condition, cause);
}

}  // namespace hostdevice
