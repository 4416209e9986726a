#include "operators/random_launch.h"

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <vector>

#include "runtime/device.h"
#include "runtime/generator.h"
#include "runtime/multiprocessors.h"

namespace hostdevice {
namespace {

constexpr int64_t kThreadsOfBlock = 256;
// In groups of kLanes threads: about 300 us of work, which is worth waking other threads for.
constexpr int64_t kGrain = 256;

template <class T, class V>
void convert(char* to, const V* values, int64_t count) {
  if constexpr (std::is_same_v<T, V>) {
    std::memcpy(to, values, static_cast<size_t>(count) * sizeof(V));
  } else {
    auto* out = reinterpret_cast<T*>(to);
    for (int64_t i = 0; i < count; i++) out[i] = static_cast<T>(values[i]);
  }
}

template <class V>
void convert(c10::ScalarType type, char* to, const V* values, int64_t count) {
  switch (type) {
    case at::kFloat:
      return convert<float>(to, values, count);
    case at::kDouble:
      return convert<double>(to, values, count);
    case at::kHalf:
      return convert<c10::Half>(to, values, count);
    case at::kBFloat16:
      return convert<c10::BFloat16>(to, values, count);
    case at::kLong:
    case at::kUInt64:
      return convert<int64_t>(to, values, count);
    case at::kInt:
    case at::kUInt32:
      return convert<int32_t>(to, values, count);
    case at::kShort:
    case at::kUInt16:
      return convert<int16_t>(to, values, count);
    case at::kByte:
      return convert<uint8_t>(to, values, count);
    case at::kChar:
      return convert<int8_t>(to, values, count);
    case at::kBool:
      return convert<bool>(to, values, count);
    default:
      TORCH_INTERNAL_ASSERT(false, "random numbers are not supported for dtype ", type);
  }
}

}  // namespace

void refuse_type(const char* kernel, c10::ScalarType type) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, '"', kernel, "\" not implemented for '", c10::toString(type), "'");
}

void in_parallel(int64_t count, int64_t grain, c10::function_ref<void(int64_t, int64_t)> f) {
  if (count <= grain || at::get_num_threads() == 1 || at::in_parallel_region()) {
    f(0, count);
    return;
  }
  // PyTorch's thread pool is behind its OpenMP runtime, of which a process has one; a TensorIterator runs on it. This
  // iterator only counts: nothing reads or writes at its addresses.
  static char origin;
  at::Tensor counter = at::from_blob(&origin, {count}, at::TensorOptions(at::kByte));
  auto iter = at::TensorIterator::nullary_op(counter);
  iter.for_each(
      [&](char** data, const int64_t*, int64_t size, int64_t) {
        const int64_t begin = data[0] - &origin;
        f(begin, begin + size);
      },
      grain);
}

Launch::Launch(int64_t numel, int64_t per_thread) {
  const auto& gpu = multiprocessors();
  const int64_t most = gpu.count * (gpu.threads / kThreadsOfBlock);
  threads = kThreadsOfBlock * std::min(most, (numel - 1) / kThreadsOfBlock + 1);
  steps = (numel - 1) / (threads * per_thread) + 1;
}

void Launch::each(c10::function_ref<void(int64_t, int64_t, int)> f) const {
  const int64_t parts = (threads - 1) / kLanes + 1;
  in_parallel(parts * steps, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const int64_t first = i % parts * kLanes;
      f(i / parts, first, static_cast<int>(std::min<int64_t>(kLanes, threads - first)));
    }
  });
}

Target::Target(at::TensorIteratorBase& iter)
    : data_(static_cast<char*>(iter.data_ptr(0))),
      type_(iter.dtype(0)),
      item_(static_cast<int64_t>(c10::elementSize(type_))),
      shape_(iter.shape().begin(), iter.shape().end()),
      strides_(iter.strides(0).begin(), iter.strides(0).end()),
      flat_(shape_.empty() || (shape_.size() == 1 && strides_[0] == item_)) {}

Target::Target(void* data, c10::ScalarType type, int64_t numel)
    : data_(static_cast<char*>(data)),
      type_(type),
      item_(static_cast<int64_t>(c10::elementSize(type))),
      shape_({numel}),
      strides_({item_}),
      flat_(true) {}

Target::Target(const at::TensorBase& tensor)
    : data_(static_cast<char*>(tensor.mutable_data_ptr())),
      type_(tensor.scalar_type()),
      item_(static_cast<int64_t>(tensor.itemsize())),
      shape_(tensor.sizes().rbegin(), tensor.sizes().rend()),
      flat_(tensor.is_contiguous()) {
  for (int64_t d = tensor.dim() - 1; d >= 0; d--) strides_.push_back(tensor.stride(d) * item_);
}

template <class V>
void Target::store(int64_t index, const V* values, int64_t count) const {
  if (flat_) {
    convert(type_, data_ + index * item_, values, count);
    return;
  }
  alignas(64) char items[kLanes * 8];
  convert(type_, items, values, count);
  scatter(index, items, count);
}
template void Target::store(int64_t, const float*, int64_t) const;
template void Target::store(int64_t, const double*, int64_t) const;
template void Target::store(int64_t, const int64_t*, int64_t) const;

void Target::scatter(int64_t index, const char* items, int64_t count) const {
  std::vector<int64_t> position(shape_.size());
  char* to = data_;
  for (size_t d = 0; d < shape_.size(); d++) {
    position[d] = index % shape_[d];
    index /= shape_[d];
    to += position[d] * strides_[d];
  }
  for (int64_t i = 0; i < count; i++, items += item_) {
    std::memcpy(to, items, static_cast<size_t>(item_));
    for (size_t d = 0; d < shape_.size(); d++) {
      to += strides_[d];
      if (++position[d] < shape_[d]) break;
      to -= position[d] * strides_[d];
      position[d] = 0;
    }
  }
}

Philox begin_draw(const OptGenerator& generator, c10::Device device, uint64_t words) {
  check_fork();
  return advance(generator, device.index(), words);
}

}  // namespace hostdevice
