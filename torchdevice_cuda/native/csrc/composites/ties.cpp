// sort, topk, mode and kthvalue with a GPU's choice among equal elements. That choice is deterministic but differs from
// the CPU's: the CPU's kernel computes first, then the choice is made again.
#include <ATen/Dispatch.h>
#include <ATen/NumericUtils.h>
#include <ATen/Parallel.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <ATen/ops/sort.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "operators/alias.h"
#include "operators/boxed.h"
#include "operators/composites.h"
#include "runtime/host.h"

namespace hostdevice {
namespace {

using at::Tensor;
using c10::ScalarType;
using torch::jit::Stack;

// ---- slices -------------------------------------------------------------------------------------------------------

// The elements of one slice, with their stride.
template <class T>
struct StridedSlice {
  T* at;
  int64_t step;
  T& operator[](int64_t i) const {
    return at[i * step];
  }
};

// Call f with the offsets of each slice along `dim`, for tensors whose other dimensions are equal; on several threads.
template <size_t N, class F>
void each_slice(const std::array<Tensor, N>& tensors, int64_t dim, int64_t length, F f) {
  const auto sizes = tensors[0].sizes();
  int64_t slices = 1;
  for (int64_t d = 0; d < tensors[0].dim(); d++) slices *= d == dim ? 1 : sizes[d];
  const int64_t grain = std::max<int64_t>(1, at::internal::GRAIN_SIZE / std::max<int64_t>(length, 1));
  at::parallel_for(0, slices, grain, [&](int64_t begin, int64_t end) {
    for (int64_t slice = begin; slice < end; slice++) {
      std::array<int64_t, N> offsets{};
      int64_t rest = slice;
      for (int64_t d = tensors[0].dim() - 1; d >= 0; d--) {
        if (d == dim) continue;
        for (size_t i = 0; i < N; i++) offsets[i] += rest % sizes[d] * tensors[i].stride(d);
        rest /= sizes[d];
      }
      f(offsets);
    }
  });
}

// ---- order of elements --------------------------------------------------------------------------------------------

// Compare like sort: NaN comes last, and zeros are equal whatever their sign.
template <class T>
bool is_less(T a, T b) {
  return (at::_isnan(b) && !at::_isnan(a)) || a < b;
}
template <class T>
bool is_same(T a, T b) {
  return a == b || (at::_isnan(a) && at::_isnan(b));
}
// Compare like topk's selection: by bits, so that -0 is less than 0.
template <class T>
bool is_below(T a, T b) {
  if constexpr (!std::is_integral_v<T>)
    if (a == T(0) && b == T(0)) return std::signbit(static_cast<float>(a)) && !std::signbit(static_cast<float>(b));
  return is_less(a, b);
}

template <class T>
struct Keyed {
  T value;
  int64_t index;
};

// CUDA sorts slices of up to this length with a bitonic sorting network, which is not stable. Its sort of longer slices
// is stable.
constexpr int64_t kNetwork = 32;

template <class T>
void sort_by_network(Keyed<T>* pairs, int64_t count, bool descending) {
  std::array<Keyed<T>, kNetwork> at{};
  std::array<bool, kNetwork> valid{};
  std::copy(pairs, pairs + count, at.begin());
  std::fill(valid.begin(), valid.begin() + count, true);
  const auto exchange = [&](int64_t a, int64_t b, bool direction) {
    const bool ordered = descending ? is_less(at[b].value, at[a].value) : is_less(at[a].value, at[b].value);
    if (((ordered && valid[a]) || !valid[b]) != direction) return;
    std::swap(at[a], at[b]);
    std::swap(valid[a], valid[b]);
  };
  const auto merge = [&](int64_t from, auto direction) {
    for (int64_t stride = from; stride > 0; stride /= 2)
      for (int64_t t = 0; t < kNetwork / 2; t++) {
        const int64_t position = 2 * t - (t & (stride - 1));
        exchange(position, position + stride, direction(t));
      }
  };
  for (int64_t size = 2; size < kNetwork; size *= 2) merge(size / 2, [&](int64_t t) { return (t & (size / 2)) != 0; });
  merge(kNetwork / 2, [](int64_t) { return false; });
  std::copy(at.begin(), at.begin() + count, pairs);
}

template <class T>
void sort_as_cuda(std::vector<Keyed<T>>& pairs, bool descending) {
  const auto count = static_cast<int64_t>(pairs.size());
  if (count <= kNetwork) return sort_by_network(pairs.data(), count, descending);
  std::stable_sort(pairs.begin(), pairs.end(), [&](const Keyed<T>& a, const Keyed<T>& b) {
    return descending ? is_less(b.value, a.value) : is_less(a.value, b.value);
  });
}

// ---- kthvalue and mode --------------------------------------------------------------------------------------------

// Find the first or the last index of the found value in each slice.
template <class T>
void find(const Tensor& self, const Tensor& values, const Tensor& indices, int64_t dim, bool last) {
  const int64_t length = self.size(dim);
  const T *in = self.const_data_ptr<T>(), *found = values.const_data_ptr<T>();
  int64_t* out = indices.mutable_data_ptr<int64_t>();
  each_slice<3>({values, self, indices}, dim, length, [&](const std::array<int64_t, 3>& at) {
    const StridedSlice<const T> line{in + at[1], self.stride(dim)};
    const T value = found[at[0]];
    for (int64_t k = 0; k < length; k++) {
      const int64_t i = last ? length - 1 - k : k;
      if (!is_same(line[i], value)) continue;
      out[at[2]] = i;
      return;
    }
  });
}

// Return the rank of a position in CUDA's block reduction, which compares within each warp, then across warps, by
// halves. The lowest rank wins a tie.
uint64_t reduction_rank(uint64_t position) {
  const auto reversed = [](uint64_t five) {
    uint64_t out = 0;
    for (int i = 0; i < 5; i++) out |= (five >> i & 1) << (4 - i);
    return out;
  };
  const uint64_t thread = position / 2;
  return (reversed(thread / 32) << 6) | (reversed(thread % 32) << 1) | (position % 2);
}

// Find the mode of each slice. Of equally frequent values, take the one whose last position in the sorted slice has the
// lowest rank.
template <class T>
void find_mode(const Tensor& self, const Tensor& values, int64_t dim) {
  const int64_t length = self.size(dim);
  const T* in = self.const_data_ptr<T>();
  T* out = values.mutable_data_ptr<T>();
  each_slice<2>({values, self}, dim, length, [&](const std::array<int64_t, 2>& at) {
    const StridedSlice<const T> line{in + at[1], self.stride(dim)};
    const auto copied = std::make_unique<T[]>(static_cast<size_t>(length));
    T* const sorted = copied.get();
    for (int64_t i = 0; i < length; i++) sorted[i] = line[i];
    std::sort(sorted, sorted + length, is_less<T>);
    int64_t most = 0, count = 0, chosen = 0;
    for (int64_t i = 0; i < length; i++) {
      count = i > 0 && sorted[i] == sorted[i - 1] ? count + 1 : 1;
      if (count < most || (count == most && reduction_rank(i) > reduction_rank(chosen))) continue;
      most = count;
      chosen = i;
    }
    out[at[0]] = sorted[chosen];
  });
}

// ---- topk ---------------------------------------------------------------------------------------------------------

// Return the worst of the selected values. The CPU's kernel does not distinguish -0 from 0, so count to find its sign.
template <class T>
T find_worst(const StridedSlice<const T>& line, int64_t length, const StridedSlice<T>& taken, int64_t k, bool largest) {
  T worst = taken[0];
  for (int64_t i = 1; i < k; i++)
    if (largest ? is_less(taken[i], worst) : is_less(worst, taken[i])) worst = taken[i];
  if (worst != T(0)) return worst;
  const T better = largest ? T(0) : -T(0), other = largest ? -T(0) : T(0);
  int64_t before = 0;
  for (int64_t i = 0; i < length; i++)
    before += !(largest ? is_below(line[i], better) : is_below(better, line[i])) ? 1 : 0;
  return before >= k ? better : other;
}

// Select the values that are better than the worst selected one, then values equal to it, each in order of position.
template <class T>
void select_topk(
    const Tensor& self, const Tensor& values, const Tensor& indices, int64_t dim, bool largest, bool sorted) {
  const int64_t length = self.size(dim), k = values.size(dim);
  const T* in = self.const_data_ptr<T>();
  T* out = values.mutable_data_ptr<T>();
  int64_t* positions = indices.mutable_data_ptr<int64_t>();
  each_slice<3>({values, self, indices}, dim, length, [&](const std::array<int64_t, 3>& at) {
    const StridedSlice<T> taken{out + at[0], values.stride(dim)};
    const StridedSlice<const T> line{in + at[1], self.stride(dim)};
    const StridedSlice<int64_t> index{positions + at[2], indices.stride(dim)};
    const T worst = find_worst(line, length, taken, k, largest);
    std::vector<Keyed<T>> better, equal;
    better.reserve(static_cast<size_t>(k));
    for (int64_t i = 0; i < length; i++) {
      const T value = line[i];
      if (largest ? is_below(worst, value) : is_below(value, worst))
        better.push_back({value, i});
      else if (static_cast<int64_t>(equal.size()) < k && !is_below(value, worst) && !is_below(worst, value))
        equal.push_back({value, i});
    }
    better.insert(better.end(), equal.begin(), equal.begin() + (k - static_cast<int64_t>(better.size())));
    if (sorted) sort_as_cuda(better, largest);
    for (int64_t i = 0; i < k; i++) {
      taken[i] = better[static_cast<size_t>(i)].value;
      index[i] = better[static_cast<size_t>(i)].index;
    }
  });
}

// ---- sort ---------------------------------------------------------------------------------------------------------

template <class T>
void sort_short(const Tensor& self, const Tensor& values, const Tensor& indices, int64_t dim, bool descending) {
  const int64_t length = self.size(dim);
  const T* in = self.const_data_ptr<T>();
  T* out = values.mutable_data_ptr<T>();
  int64_t* positions = indices.mutable_data_ptr<int64_t>();
  each_slice<3>({values, self, indices}, dim, length, [&](const std::array<int64_t, 3>& at) {
    const StridedSlice<T> sorted{out + at[0], values.stride(dim)};
    bool ties = false;
    for (int64_t i = 1; i < length && !ties; i++) ties = is_same<T>(sorted[i - 1], sorted[i]);
    if (!ties) return;
    const StridedSlice<const T> line{in + at[1], self.stride(dim)};
    const StridedSlice<int64_t> index{positions + at[2], indices.stride(dim)};
    std::array<Keyed<T>, kNetwork> pairs;
    for (int64_t i = 0; i < length; i++) pairs[i] = {line[i], i};
    sort_by_network(pairs.data(), length, descending);
    for (int64_t i = 0; i < length; i++) {
      sorted[i] = pairs[i].value;
      index[i] = pairs[i].index;
    }
  });
}

// ---- kernels ------------------------------------------------------------------------------------------------------

#define HOSTDEVICE_FOR_TYPES(type, ...) \
  AT_DISPATCH_ALL_TYPES_AND3(           \
      ScalarType::Half, ScalarType::BFloat16, ScalarType::Bool, type, "sortKeyValueInplace", __VA_ARGS__)

// An operator call and its input, which is cloned if a result may overwrite it. `computes` is false if there is nothing
// to choose.
struct Call {
  Call(const c10::OperatorHandle& op, Stack& stack, size_t dim_position)
      : base(stack.size() - op.schema().arguments().size()), self(stack[base].toTensor()) {
    for (size_t i = base + 1; i < stack.size(); i++)
      if (stack[i].isTensor() && stack[i].toTensor().is_alias_of(self)) self = self.clone();
    const int64_t given = stack[base + dim_position].toInt();
    // Indices are eight bytes wide.
    const size_t bytes =
        std::max(is_plain(self) ? self.storage().nbytes() : 0, static_cast<size_t>(self.numel()) * sizeof(int64_t));
    computes = is_device_tensor(self) && self.dim() > 0 && self.numel() > 0 && given < self.dim() &&
        given >= -self.dim() && !is_only_promised(bytes);
    if (computes) dim = at::maybe_wrap_dim(given, self.dim());
  }
  size_t base;
  Tensor self;
  int64_t dim = 0;
  bool computes = false;
};

Tensor result(const Stack& stack, size_t position) {
  return stack[stack.size() - 2 + position].toTensor();
}

template <bool kLast>
void find_again(const Call& call, const Stack& stack, bool keeps) {
  Tensor values = result(stack, 0), indices = result(stack, 1);
  if (!keeps) values = values.unsqueeze(call.dim), indices = indices.unsqueeze(call.dim);
  HOSTDEVICE_FOR_TYPES(call.self.scalar_type(), [&] { find<scalar_t>(call.self, values, indices, call.dim, kLast); });
}

void kthvalue(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const Call call(op, *stack, 2);
  const bool keeps = (*stack)[call.base + 3].toBool();
  run_on_cpu(op, c10::DispatchKey::CPU, stack);
  if (call.computes) find_again<false>(call, *stack, keeps);
}

// CUDA has two kernels: one returns the last index for short slices, the other the first index for long ones.
void mode(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  constexpr int64_t kFew = 2048;
  const Call call(op, *stack, 1);
  const bool keeps = (*stack)[call.base + 2].toBool();
  run_on_cpu(op, c10::DispatchKey::CPU, stack);
  if (!call.computes) return;
  if (call.self.size(call.dim) > kFew) return find_again<false>(call, *stack, keeps);
  const Tensor values = result(*stack, 0);
  const Tensor kept = keeps ? values : values.unsqueeze(call.dim);
  HOSTDEVICE_FOR_TYPES(call.self.scalar_type(), [&] { find_mode<scalar_t>(call.self, kept, call.dim); });
  find_again<true>(call, *stack, keeps);
}

void topk(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const Call call(op, *stack, 2);
  const bool largest = (*stack)[call.base + 3].toBool(), sorted = (*stack)[call.base + 4].toBool();
  run_on_cpu(op, c10::DispatchKey::CPU, stack);
  const Tensor values = result(*stack, 0), indices = result(*stack, 1);
  if (!call.computes || values.numel() == 0) return;
  HOSTDEVICE_FOR_TYPES(
      call.self.scalar_type(), [&] { select_topk<scalar_t>(call.self, values, indices, call.dim, largest, sorted); });
}

void sort(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const Call call(op, *stack, 2);
  c10::IValue& stable = (*stack)[call.base + 1];
  const bool keeps_order = stable.isBool() && stable.toBool(), descending = (*stack)[call.base + 3].toBool();
  stable = true;
  run_on_cpu(op, c10::DispatchKey::CPU, stack);
  if (keeps_order || !call.computes || call.self.size(call.dim) > kNetwork) return;
  const Tensor values = result(*stack, 0), indices = result(*stack, 1);
  HOSTDEVICE_FOR_TYPES(
      call.self.scalar_type(), [&] { sort_short<scalar_t>(call.self, values, indices, call.dim, descending); });
}

#undef HOSTDEVICE_FOR_TYPES

// Call sort.stable like PyTorch's decompositions: the CPU's kernels of these operators would choose like the CPU.
std::tuple<Tensor, Tensor> plain_sort(const Tensor& self, int64_t dim, bool descending) {
  return at::sort(self, false, dim, descending);
}
std::tuple<Tensor&, Tensor&> plain_sort_out(
    const Tensor& self, int64_t dim, bool descending, Tensor& values, Tensor& indices) {
  return at::sort_out(values, indices, self, false, dim, descending);
}
Tensor argsort(const Tensor& self, bool stable, int64_t dim, bool descending) {
  return std::get<1>(at::sort(self, stable, dim, descending));
}

}  // namespace

void register_ties(Registrar& registrar) {
  for (const char* name : {"kthvalue", "kthvalue.values"}) registrar.impl(name, &kthvalue);
  for (const char* name : {"mode", "mode.values"}) registrar.impl(name, &mode);
  for (const char* name : {"topk", "topk.values"}) registrar.impl(name, &topk);
  for (const char* name : {"sort.stable", "sort.values_stable"}) registrar.impl(name, &sort);
  registrar.impl("sort", TORCH_FN(plain_sort));
  registrar.impl("sort.values", TORCH_FN(plain_sort_out));
  registrar.impl("argsort.stable", TORCH_FN(argsort));
}

}  // namespace hostdevice
