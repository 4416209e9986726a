#include "operators/assertions.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/full_like.h>
#include <c10/util/ScopeExit.h>

#include <cstdint>
#include <cstring>

#include "operators/boxed.h"
#include "operators/facts.h"
#include "operators/shapes.h"
#include "operators/tensors.h"
#include "runtime/failure.h"
#include "runtime/tape.h"

namespace hostdevice {
namespace {

using Arguments = std::vector<c10::IValue>;

struct Assertion {
  const char* name;
  const char* words;  // in what the CPU's kernel says
  const char* place;  // of torch 2.11: the file, the line, the function
  const char* condition;
  size_t argument = 0;                              // whose elements are wrong
  double harmless = 0;                              // and with which it computes
  bool (*holds)(const Arguments& given) = nullptr;  // it is this kernel that computes; null: it always is
};

template <size_t kPosition>
bool is_number(const Arguments& given) {
  return given.size() > kPosition && !given[kPosition].isTensor();
}
template <size_t kPosition>
bool is_true(const Arguments& given) {
  return given.size() > kPosition && given[kPosition].isBool() && given[kPosition].toBool();
}
// Losses that are not reduced, by the number of the reduction.
template <size_t kPosition>
bool is_each(const Arguments& given) {
  return given.size() > kPosition && given[kPosition].isInt() && given[kPosition].toInt() == 0;
}

#define IN_CUDA "/pytorch/aten/src/ATen/native/cuda/"
constexpr const char* kOutOfBounds = "is out of bounds for dimension ";
constexpr const char* kOutOfRange = "index out of range in self";
constexpr const char* kIndexing = IN_CUDA "IndexKernel.cu:111: operator()";
constexpr const char* kInBounds = "-sizes[i] <= index && index < sizes[i] && \"index out of bounds\"";
constexpr const char* kScattering = IN_CUDA "ScatterGatherKernel.cu:163: operator()";
constexpr const char* kInDimension =
    "idx_dim >= 0 && idx_dim < index_size && \"scatter gather kernel index out of bounds\"";
constexpr const char* kFilling = IN_CUDA "ScatterGatherKernel.cu:409: operator()";
constexpr const char* kFilled = "idx_dim >= 0 && idx_dim < index_size && \"index out of bounds\"";
constexpr const char* kSelecting = IN_CUDA "Indexing.cu:1515: indexSelectSmallIndex";
constexpr const char* kSelected = "srcIndex < srcSelectDimSize";
constexpr const char* kAdding = IN_CUDA "Indexing.cu:1021: indexFuncSmallIndex";
constexpr const char* kAdded = "dstIndex < dstAddDimSize";
constexpr const char* kTarget = "t >= 0 && t < n_classes";
constexpr const char* kTargets = "cur_target >= 0 && cur_target < n_classes";
constexpr const char* kOneOf = IN_CUDA "Loss.cu:245: nll_loss_forward_reduce_cuda_kernel_2d";
constexpr const char* kPixels = IN_CUDA "NLLLoss2d.cu:106: nll_loss2d_forward_kernel";
constexpr const char* kBags = IN_CUDA "EmbeddingBag.cu:149: EmbeddingBag_updateOutputKernel_sum_mean";
constexpr const char* kLargest = IN_CUDA "EmbeddingBag.cu:89: EmbeddingBag_updateOutputKernel_max";
constexpr const char* kBagged =
    "!has_invalid_index && \"Invalid input index in EmbeddingBag: index out of range [0, numRows)\"";
constexpr const char* kNone = IN_CUDA "TensorCompare.cu:109: _assert_async_cuda_kernel";
constexpr Assertion kAssertions[] = {
    {"index", kOutOfBounds, kIndexing, kInBounds, 1},
    {"_unsafe_index", kOutOfBounds, kIndexing, kInBounds, 1},
    {"index_put", kOutOfBounds, kNone, "", 1, 0, &is_true<3>},
    {"index_put", kOutOfBounds, kIndexing, kInBounds, 1},
    {"_index_put_impl", kOutOfBounds, kNone, "", 1, 0, &is_true<3>},
    {"_index_put_impl", kOutOfBounds, kIndexing, kInBounds, 1},
    {"_unsafe_index_put", kOutOfBounds, kIndexing, kInBounds, 1},
    {"gather", kOutOfBounds, kScattering, kInDimension, 2},
    {"scatter", kOutOfBounds, kFilling, kFilled, 2, 0, &is_number<3>},
    {"scatter", kOutOfBounds, kScattering, kInDimension, 2},
    {"scatter_add", kOutOfBounds, kScattering, kInDimension, 2},
    {"scatter_reduce", kOutOfBounds, kScattering, kInDimension, 2},
    {"index_select", kOutOfRange, kSelecting, kSelected, 2},
    {"index_select", "INDICES element is out of DATA bounds", kSelecting, kSelected, 2},
    {"index_add", kOutOfRange, kAdding, kAdded, 2},
    {"index_add", kOutOfBounds, kAdding, kAdded, 2},
    {"index_reduce", kOutOfRange, kAdding, kAdded, 2},
    {"index_copy", kOutOfBounds, IN_CUDA "IndexKernel.cu:193: operator()",
     "idx >= 0 && idx < self_dim_size && \"index_copy_(): index out of bounds\"", 2},
    {"index_fill", kOutOfBounds, IN_CUDA "IndexKernel.cu:154: operator()",
     "idx >= -self_dim_size && idx < self_dim_size && \"index out of bounds\"", 2},
    {"take", "tried to access index", IN_CUDA "IndexKernel.cu:339: operator()",
     "idx < numel && idx >= -numel && \"cuda_take_put_kernel() index out of bounds\"", 1},
    {"put", "tried to access index", IN_CUDA "IndexKernel.cu:339: operator()",
     "idx < numel && idx >= -numel && \"cuda_take_put_kernel() index out of bounds\"", 1},
    {"masked_scatter", "Number of elements of source < number of ones in mask",
     IN_CUDA "IndexKernel.cu:400: masked_scatter_size_check", "totalElements <= srcSize", 1},
    {"embedding", kOutOfRange, kSelecting, kSelected, 1},
    {"embedding_renorm", "out of range for tensor of size", kSelecting, kSelected, 1},
    {"_embedding_bag", "not in the valid range [0,", kBags, kBagged, 1},
    {"_embedding_bag", "Expected idx >= 0 && idx < num_embeddings", kLargest, kBagged, 1},
    {"_embedding_bag_forward_only", "not in the valid range [0,", kBags, kBagged, 1},
    {"_embedding_bag_forward_only", "Expected idx >= 0 && idx < num_embeddings", kLargest, kBagged, 1},
    {"nll_loss_forward", "is out of bounds.", IN_CUDA "Loss.cu:180: nll_loss_forward_no_reduce_cuda_kernel", kTargets,
     1, 0, &is_each<3>},
    {"nll_loss_forward", "is out of bounds.", kOneOf, kTarget, 1},
    {"nll_loss_backward", "is out of bounds.", IN_CUDA "Loss.cu:477: nll_loss_backward_reduce_cuda_kernel_2d", kTarget,
     2},
    {"nll_loss2d_forward", "is out of bounds.", IN_CUDA "NLLLoss2d.cu:73: nll_loss2d_forward_no_reduce_kernel",
     kTargets, 1, 0, &is_each<3>},
    {"nll_loss2d_forward", "is out of bounds.", kPixels, kTarget, 1},
    {"nll_loss2d_backward", "is out of bounds.", IN_CUDA "NLLLoss2d.cu:197: nll_loss2d_backward_kernel", kTarget, 2},
    {"multi_margin_loss", "target out of range", IN_CUDA "MultiMarginLoss.cu:33: MultiMarginLoss_forward_kernel",
     "target_k >= 0 && target_k < dim && \"target index is out of bounds\"", 1},
    {"binary_cross_entropy", "all elements of input should be", IN_CUDA "Loss.cu:90: operator()",
     "input_val >= zero && input_val <= one", 0, 0.5},
    {"binary_cross_entropy", "all elements of target should be", IN_CUDA "Loss.cu:91: operator()",
     "target_val >= zero && target_val <= one", 1},
    {"max_unpool2d", "Found an invalid max index", IN_CUDA "MaxUnpooling.cu:47: max_unpooling2d_forward_kernel",
     "maxind >= 0 && maxind < outputImageSize", 1},
    {"max_unpool3d", "Found an invalid max index", IN_CUDA "MaxUnpooling.cu:69: max_unpooling3d_forward_kernel",
     "index >= 0 && index < outputImageSize", 1},
    {"repeat_interleave", "allocated size does not match required size", IN_CUDA "Repeat.cu:20: compute_cuda_kernel",
     "result_size == cumsum_ptr[size - 1]"},
    // Whatever words the program gave it; those of a tensor that is no single value are no assertion.
    {"_assert_async", "", kNone, "", 0, 1},
};
constexpr const char* kNoSingleValue = "Boolean value of Tensor with";
// Found without a look at elements.
constexpr const char* kNothingThere = "out of bounds for dimension with size 0";

// What an operator of CUDA's says for what the CPU's says otherwise.
struct Wording {
  const char* name;
  const char* words;    // in what the CPU's kernel says
  const char* kernel;   // what CUDA's kernel calls itself, where it has none for the type of an argument
  size_t argument;      // that one
  const char* instead;  // otherwise: what is put in the place of the words; of all that was said, if `whole`
  bool whole = false;
};
constexpr Wording kWordings[] = {
    {"index_select", "Index is supposed to be a vector", nullptr, 0,
     "Index is supposed to be an empty tensor or a vector", true},
    {"index_select", "Expected dtype int32 or int64 for index", "index_select_out_cuda_impl", 2, nullptr},
    {"nll_loss_forward", "expected scalar type Long but found", "nll_loss_forward_reduce_cuda_kernel_2d_index", 1,
     nullptr},
    {"embedding", "but got torch.", nullptr, 0, "but got torch.cuda."},
    {"embedding", "but got CPU", nullptr, 0, "but got CUDA"},
    {"_ctc_loss", "ctc_loss_allocate_outputs", nullptr, 0, "ctc_loss_gpu"},
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
  // What is made of others is run whole, and raises for one of them.
  if (!f.composite) return nullptr;
  for (const auto& row : kAssertions)
    if (*row.words && !row.holds && words.find(row.words) != std::string::npos) return &row;
  return nullptr;
}

// The arguments, with elements that the kernel computes with.
torch::jit::Stack harmless(const Facts& f, const Assertion& row, const std::vector<c10::IValue>& arguments) {
  torch::jit::Stack stack(arguments.begin(), arguments.end());
  stack[row.argument] = map_tensors(stack[row.argument], f.args[row.argument].kind, [&](const at::Tensor& t) {
    return f.indexing && t.scalar_type() == at::kBool ? t : at::full_like(t, row.harmless);
  });
  return stack;
}

// What torch says of an assertion that the program gave no words.
bool starts_of_torch(const std::string& words) {
  return words.rfind("Expected Tensor with single nonzero value", 0) == 0;
}

// The calling thread has had elements replaced: what is raised now is the program's.
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
  } catch (const c10::Error&) {  // there may be no such elements
  }
  // Seconds when it is first asked: many kernels without memory are Python's.
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
  // What is replayed has its results already, wherever they are.
  const bool found =
      t_tape.playing || (!arguments.empty() && find_results(op, f, target, *row, arguments, index, results));
  // What is captured is not computed, so that nothing is found out.
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
