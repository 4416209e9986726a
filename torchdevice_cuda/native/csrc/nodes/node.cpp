#include "nodes/node.h"

#include <ATen/ops/from_blob.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "operators/alias.h"
#include "operators/copies.h"
#include "operators/operator_info.h"
#include "operators/tensors.h"
#include "operators/types.h"
#include "runtime/allocator.h"

namespace hostdevice {
namespace {

using c10::IValue;

at::Tensor copy_scalar(const at::Tensor& t) {
  at::Tensor copy = t.clone();
  copy.unsafeGetTensorImpl()->set_wrapped_number(t.unsafeGetTensorImpl()->is_wrapped_number());
  return copy;
}

// Whether a tensor has these sizes and strides. Strides of dimensions of size one do not count.
bool has_layout(const at::Tensor& t, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) {
  if (t.sizes() != sizes || t.storage_offset() != offset) return false;
  for (const auto d : c10::irange(sizes.size()))
    if (sizes[d] > 1 && t.strides()[d] != strides[d]) return false;
  return true;
}

// Makes the thread's allocations return the captured addresses during a call.
struct ReplayScope {
  explicit ReplayScope(const CapturedAllocations& allocations) : saved(t_captured) {
    t_captured = {nullptr, &allocations, 0};
  }
  ~ReplayScope() {
    t_captured = saved;
  }
  ReplayScope(const ReplayScope&) = delete;
  ReplayScope& operator=(const ReplayScope&) = delete;
  CaptureCursor saved;
};

}  // namespace

Node::Node(
    const c10::OperatorHandle& op, const OperatorInfo& f, c10::DispatchKeySet keys, c10::DeviceIndex index,
    c10::ArrayRef<IValue> arguments, c10::ArrayRef<IValue> results, CapturedAllocations allocations)
    : name_(c10::toString(op.operator_name())),
      op_(op),
      keys_(keys),
      index_(index),
      allocations_(std::move(allocations)) {
  on_cpu_ = computes_on_cpu(f, arguments);
  if (op.schema().name() == "aten::copy_") {
    copy_name_ = hostdevice::get_copy_name(arguments[0].toTensor(), arguments[1].toTensor());
    copied_bytes_ = static_cast<int64_t>(arguments[0].toTensor().nbytes());
  }
  if (on_cpu_) keys_ = c10::DispatchKeySet(c10::DispatchKey::CPU);
  freeze(f, arguments);
  add_results(arguments, results);
}

Node::Node(
    std::string name, std::function<void()> work, std::vector<const void*> addresses, CapturedAllocations allocations,
    bool computes)
    : name_(std::move(name)),
      work_(std::move(work)),
      computes_(computes),
      addresses_(std::move(addresses)),
      allocations_(std::move(allocations)) {}

// Whether the device's kernel does nothing but call the CPU kernel, with these arguments.
bool Node::computes_on_cpu(const OperatorInfo& f, c10::ArrayRef<IValue> arguments) const {
  if (!f.only_calls_cpu_kernel || keys_ != c10::DispatchKeySet(kDense)) return false;
  bool plain = true, any_cpu = false;
  Types types = 0;
  for (const auto i : f.interesting) {
    const auto kind = f.args[i].kind;
    if (kind == Kind::Generator || kind == Kind::Storage) return false;
    each_tensor(arguments[i], kind, [&](const at::Tensor& t) {
      types |= types_of(t.scalar_type());
      if (is_device_tensor(t))
        plain = plain && is_plain(t) && t.device().index() == index_;
      else
        any_cpu = true;
    });
  }
  return plain && !(types & f.special) && !(f.is_composite && any_cpu);
}

void Node::freeze(const OperatorInfo& f, c10::ArrayRef<IValue> arguments) {
  Aliases aliases(index_);
  aliases.keep_lazy();
  NonOwningTensors non_owning;
  arguments_.reserve(arguments.size());
  for (const auto i : c10::irange(arguments.size())) {
    const auto& info = f.args[i];
    if (on_cpu_ && info.kind == Kind::Device && arguments[i].isDevice()) {
      arguments_.emplace_back(cpu());
      continue;
    }
    arguments_.push_back(map_tensors(arguments[i], info.kind, [&](const at::Tensor& t) {
      if (!is_device_tensor(t)) {
        has_cpu_scalars_ = true;
        // A scalar is passed by value; other host memory is read at each replay.
        return t.dim() == 0 && !f.mixes_devices && !info.changed ? copy_scalar(t) : t;
      }
      if (!is_plain(t)) return t;
      addresses_.push_back(t.storage().data());
      return on_cpu_ ? aliases.to_cpu(t, false) : non_owning.tensor(t);
    }));
  }
}

void Node::add_results(c10::ArrayRef<IValue> arguments, c10::ArrayRef<IValue> results) {
  std::vector<const void*> given;
  for (const auto& v : arguments)
    each_result(v, [&](const at::Tensor& t) {
      if (t.has_storage()) given.push_back(t.storage().data());
    });
  for (const auto& v : results) {
    each_result(v, [&](const at::Tensor& t) {
      const bool made = is_device_tensor(t) && is_plain(t) &&
          std::find(given.begin(), given.end(), t.storage().data()) == given.end();
      if (!made)
        results_.emplace_back();
      else
        results_.push_back(
            {t.storage().unsafeGetStorageImpl()->mutable_data(), t.storage().nbytes(), t.dtype(), t.sizes().vec(),
             t.strides().vec(), t.storage_offset()});
    });
  }
  const auto none = [](const Result& r) { return !r.address; };
  if (std::all_of(results_.begin(), results_.end(), none)) results_.clear();
}

void Node::call(torch::jit::Stack& stack) const {
  if (!on_cpu_) {
    op_->redispatchBoxed(keys_, &stack);
    return;
  }
  const AllocateOnDevice here(index_, has_cpu_scalars_);
  op_->redispatchBoxed(keys_, &stack);
}

bool Node::place(const at::Tensor& result, const Result& expected) const {
  const bool same_layout = has_layout(result, expected.sizes, expected.strides, expected.offset);
  if (same_layout && result.storage().nbytes() == expected.bytes) {
    std::memcpy(expected.address, result.storage().data(), expected.bytes);
    return true;
  }
  TORCH_INTERNAL_ASSERT(
      result.sizes() == expected.sizes && result.dtype() == expected.dtype, name_,
      " gave a result of another shape or type when replayed: ", result.sizes(), " of ", result.dtype(), ", not ",
      c10::IntArrayRef(expected.sizes), " of ", expected.dtype);
  Aliases aliases(index_);
  auto* const at = static_cast<char*>(expected.address) + expected.offset * result.itemsize();
  at::from_blob(at, expected.sizes, expected.strides, at::TensorOptions(expected.dtype))
      .copy_(aliases.to_cpu(result, false));
  return same_layout;
}

bool Node::replay() const {
  const ReplayScope replaying(allocations_);
  if (work_) {
    work_();
    return true;
  }
  t_current_device = index_;
  torch::jit::Stack stack = arguments_;
  call(stack);
  // The results for which the kernel got other memory this time. If that is another result's, they must not overwrite
  // each other.
  std::vector<std::pair<at::Tensor, const Result*>> misplaced;
  t_captured.next = allocations_.entries.size();  // copies are in host memory
  auto expected = results_.begin();
  for (const auto& v : stack) {
    each_result(v, [&](const at::Tensor& t) {
      if (expected == results_.end()) return;
      const Result& r = *expected++;
      if (!r.address || !t.has_storage()) return;
      const void* const at = t.storage().data();
      if (at == r.address && has_layout(t, r.sizes, r.strides, r.offset)) return;
      misplaced.emplace_back(is_captured_address(at) ? t.clone() : t, &r);
    });
  }
  bool as_expected = true;
  for (const auto& [result, place_of] : misplaced) as_expected = place(result, *place_of) && as_expected;
  return as_expected;
}

}  // namespace hostdevice
