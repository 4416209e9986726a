// How CUDA's kernels divide a draw among threads, and where the results go.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/core/Generator.h>
#include <c10/util/BFloat16.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <optional>
#include <type_traits>

#include "operators/random_lanes.h"

namespace hostdevice {

using OptGenerator = std::optional<at::Generator>;

// Raise CUDA's error for a type that a kernel is not compiled for.
[[noreturn]] void refuse_type(const char* kernel, c10::ScalarType type);
inline void check_floating(const char* kernel, c10::ScalarType type) {
  if (type != at::kFloat && type != at::kDouble && type != at::kHalf && type != at::kBFloat16)
    refuse_type(kernel, type);
}

// Call f with a value of the tensor's type, one of four.
template <class F>
void for_floating(const char* kernel, c10::ScalarType type, const F& f) {
  switch (type) {
    case at::kFloat:
      return f(float{});
    case at::kDouble:
      return f(double{});
    case at::kHalf:
      return f(c10::Half{});
    case at::kBFloat16:
      return f(c10::BFloat16{});
    default:
      refuse_type(kernel, type);
  }
}
// The type in which CUDA computes.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Call f(begin, end) for parts of 0 to `count`, on PyTorch's threads if there are more than `grain`.
void in_parallel(int64_t count, int64_t grain, c10::function_ref<void(int64_t, int64_t)> f);

// A launch of blocks of 256 threads, as many as the GPU holds at once. At every step a thread draws for `per_thread`
// elements, which are as far apart as there are threads.
struct Launch {
  Launch(int64_t numel, int64_t per_thread);

  // Call f(step, first thread, threads) for lanes of threads, in any order and on several host threads.
  void each(c10::function_ref<void(int64_t, int64_t, int)> f) const;

  // Words that a thread may read: the generator's offset grows by as many.
  uint64_t words() const {
    return static_cast<uint64_t>(steps) * 4;
  }

  int64_t threads, steps;
};

// Destination of the results. Elements are numbered as in a kernel: the first dimension varies fastest.
class Target {
 public:
  explicit Target(at::TensorIteratorBase& iter);
  // Contiguous memory.
  Target(void* data, c10::ScalarType type, int64_t numel);
  // A tensor whose dimensions are numbered from the last.
  explicit Target(const at::TensorBase& tensor);

  // Store elements from `index` on, converted to the tensor's type.
  template <class V>
  void store(int64_t index, const V* values, int64_t count) const;

 private:
  void scatter(int64_t index, const char* items, int64_t count) const;

  char* data_;
  c10::ScalarType type_;
  int64_t item_;
  c10::SmallVector<int64_t, 6> shape_, strides_;  // strides in bytes
  bool flat_;
};

// Advance the generator by `words` and return the position at which a launch on the device reads.
Philox begin_draw(const OptGenerator& generator, c10::Device device, uint64_t words);

// Launch once into an iterator's output. `make(words, used, lanes, values)` computes `used` values from each lane's
// words.
template <int kPerThread, class V, class Make>
void draw_into(at::TensorIteratorBase& iter, const OptGenerator& generator, const Make& make) {
  const int64_t numel = iter.numel();
  if (numel == 0) return;
  const Launch launch(numel, kPerThread);
  const Philox from = begin_draw(generator, iter.device(0), launch.words());
  if (!iter.can_use_32bit_indexing()) {
    // As on CUDA, the parts draw after the whole has advanced the generator.
    for (auto& part : iter.with_32bit_indexing()) draw_into<kPerThread, V>(part, generator, make);
    return;
  }
  const Target to(iter);
  launch.each([&](int64_t step, int64_t first, int lanes) {
    Four<uint32_t> words;
    Four<V> values;
    const int64_t begin = step * kPerThread * launch.threads + first;
    if (begin >= numel) return;
    lanes = static_cast<int>(std::min<int64_t>(lanes, numel - begin));
    const auto used = static_cast<int>(std::min<int64_t>(kPerThread, (numel - begin - 1) / launch.threads + 1));
    draw_words(from, static_cast<uint64_t>(step), static_cast<uint64_t>(first), lanes, words);
    make(words, used, lanes, values);
    for (int k = 0; k < used; k++) {
      const int64_t index = begin + k * launch.threads;
      to.store(index, values.of[k], std::min<int64_t>(lanes, numel - index));
    }
  });
}

}  // namespace hostdevice
