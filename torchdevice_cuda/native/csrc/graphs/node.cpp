#include "graphs/node.h"

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
      results_.push_back(
          made ? Result{t.storage().unsafeGetStorageImpl()->mutable_data(), t.storage().nbytes()} : Result{nullptr, 0});
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

void Node::replay() const {
  const ReplayScope replaying(allocations_);
  if (work_) {
    work_();
    return;
  }
  t_current_device = index_;
  torch::jit::Stack stack = arguments_;
  call(stack);
  if (results_.empty()) return;
  auto expected = results_.begin();
  for (const auto& v : stack) {
    each_result(v, [&](const at::Tensor& t) {
      if (expected == results_.end()) return;
      const Result& r = *expected++;
      // The kernel got other memory this time: copy the result to its captured address.
      if (!r.address || !t.has_storage() || t.storage().data() == r.address) return;
      TORCH_INTERNAL_ASSERT(t.storage().nbytes() == r.bytes, name_, " gave a result of another size when replayed");
      std::memcpy(r.address, t.storage().data(), r.bytes);
    });
  }
}

}  // namespace hostdevice
