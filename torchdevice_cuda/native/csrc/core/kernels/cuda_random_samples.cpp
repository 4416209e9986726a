// Samples from distributions that tensors describe: bernoulli, multinomial, permutations.
#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/empty.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "operators/assertions.h"
#include "operators/random.h"
#include "operators/random_launch.h"
#include "operators/registration.h"
#include "runtime/device.h"

namespace hostdevice {
namespace {

using at::Tensor;

// ---- bernoulli -----------------------------------------------------------------------------------------------------

// CUDA's kernels over two tensors swap dimensions if that brings one tensor closer to its memory order and neither
// further away. Elements are numbered in the resulting order.
std::vector<int64_t> order_of_dimensions(const Tensor& a, const Tensor& b) {
  std::vector<int64_t> order(static_cast<size_t>(a.dim()));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = 0; i + 1 < order.size(); i++) {
    if (a.size(order[i]) == 1) continue;
    for (size_t j = i + 1; j < order.size(); j++) {
      const int64_t x = order[i], y = order[j];
      if (a.size(y) == 1) continue;
      const bool up = a.stride(x) < a.stride(y) || b.stride(x) < b.stride(y);
      const bool down = a.stride(x) > a.stride(y) || b.stride(x) > b.stride(y);
      if (up && !down) std::swap(order[i], order[j]);
    }
  }
  return order;
}

// Grain size, in lanes.
constexpr int64_t kSampling = 64;

// A thread draws for four neighboring elements, and there are as many threads as that needs.
void bernoulli_of(const at::TensorBase& self_, const at::TensorBase& p_, OptGenerator generator) {
  const Tensor self(self_);
  const Philox from = begin_draw(generator, self.device(), 10);
  TORCH_CHECK(
      at::isFloatingType(p_.scalar_type()), "expected probabilities tensor to have floating type, got ",
      p_.scalar_type());
  if (at::isComplexType(self.scalar_type())) refuse_type("bernoulli_tensor_cuda_self_", self.scalar_type());
  const bool wide = self.scalar_type() == at::kDouble;
  const Tensor given = Tensor(p_).to(self.options().dtype(wide ? at::kDouble : at::kFloat));
  const auto expanded = at::expand_inplace(self, given);
  const auto order = order_of_dimensions(self, *expanded);
  const Tensor p = expanded->permute(order).contiguous();
  const Target to(self.permute(order));
  const int64_t numel = self.numel();
  std::atomic<bool> wrong{false};
  const auto compare = [&](const auto* chances) {
    in_parallel((numel + 4 * kLanes - 1) / (4 * kLanes), kSampling, [&](int64_t begin, int64_t end) {
      Four<uint32_t> words;
      alignas(64) float values[4 * kLanes];
      for (int64_t part = begin; part < end; part++) {
        const int64_t first = part * kLanes, index = first * 4, count = std::min<int64_t>(4 * kLanes, numel - index);
        draw_words(from, 0, static_cast<uint64_t>(first), static_cast<int>((count + 3) / 4), words);
        const auto* chance = chances + index;
        for (int64_t i = 0; i < count; i++) {
          if (!(chance[i] >= 0 && chance[i] <= 1)) wrong.store(true, std::memory_order_relaxed);
          values[i] = unit(words.of[i % 4][i / 4]) <= chance[i] ? 1.0F : 0.0F;
        }
        for (int64_t i = 0; i < count; i += kLanes)
          to.store(index + i, values + i, std::min<int64_t>(kLanes, count - i));
      }
    });
  };
  if (wide)
    compare(p.const_data_ptr<double>());
  else
    compare(p.const_data_ptr<float>());
  if (wrong)
    assert_element(
        self.device().index(), "/pytorch/aten/src/ATen/native/cuda/DistributionTemplates.h:634: operator()",
        "0 <= p2 && p2 <= 1", "bernoulli: a probability is not between 0 and 1");
}

// ---- multinomial, with replacement ---------------------------------------------------------------------------------

// Sum a row in the order in which a block of threads adds it.
template <class T>
T block_sum(const T* row, int64_t size) {
  constexpr int64_t warp = 32, most = 1024;
  const int64_t threads = std::min(most, warp * ((size + warp - 1) / warp));
  std::array<T, most> sums{};
  for (int64_t i = 0; i < size; i++) {
    T& sum = sums[static_cast<size_t>(i % threads)];
    sum = sum + row[i];
  }
  const auto add_up = [&](int64_t begin) {
    for (int64_t distance = warp / 2; distance; distance /= 2)
      for (int64_t i = begin; i < begin + distance; i++)
        sums[static_cast<size_t>(i)] = sums[static_cast<size_t>(i)] + sums[static_cast<size_t>(i + distance)];
    return sums[static_cast<size_t>(begin)];
  };
  std::array<T, warp> of_warps{};
  for (int64_t w = 0; w < threads / warp; w++) of_warps[static_cast<size_t>(w)] = add_up(w * warp);
  std::copy(of_warps.begin(), of_warps.end(), sums.begin());
  return add_up(0);
}

// A block of 128 threads draws a row's samples, one per thread.
template <class T>
void sample_rows(const Tensor& rows, int64_t samples, const Philox& from, int64_t* out) {
  constexpr int64_t block = 128;
  const int64_t size = rows.size(1), threads = ((samples - 1) / block + 1) * block;
  const T* weights = rows.const_data_ptr<T>();
  std::vector<T> chances(static_cast<size_t>(size)), sums(static_cast<size_t>(size));
  for (int64_t row = 0; row < rows.size(0); row++) {
    const T total = block_sum(weights + row * size, size);
    const bool numbers = std::all_of(weights + row * size, weights + (row + 1) * size, [](T w) { return w >= T(0); }) &&
        static_cast<double>(total) <= std::numeric_limits<double>::max();
    if (!numbers || !(total > T(0))) {
      assert_element(
          rows.device().index(),
          "/pytorch/aten/src/ATen/native/cuda/MultinomialKernel.cu:112: binarySearchForMultinomial",
          "cumdist[size - 1] > static_cast<scalar_t>(0)",
          numbers ? "invalid multinomial distribution (sum of probabilities <= 0)"
                  : "probability tensor contains either `inf`, `nan` or element < 0");
      std::fill(out + row * samples, out + (row + 1) * samples, 0);
      continue;
    }
    double sum = 0;
    for (size_t i = 0; i < chances.size(); i++) {
      const T weight = weights[row * size + static_cast<int64_t>(i)];
      chances[i] = static_cast<T>(weight / total);
      sum += static_cast<double>(chances[i]);
      sums[i] = static_cast<T>(sum);
    }
    Four<uint32_t> words;
    for (int64_t sample = 0; sample < samples; sample++) {
      const auto thread = static_cast<uint64_t>(row * threads + sample);
      // Rows begin at multiples of a block, so the lanes that contain a sample may begin in another row.
      const auto place = static_cast<size_t>(thread % kLanes);
      if (sample == 0 || place == 0) draw_words(from, 0, thread / kLanes * kLanes, kLanes, words);
      const T drawn = static_cast<T>(unit(words.of[0][place]));
      auto chosen = std::lower_bound(sums.begin(), sums.end(), drawn) - sums.begin();
      if (chosen == size) chosen = size - 1;
      while (chosen >= 1 && chances[static_cast<size_t>(chosen)] == T(0)) chosen--;
      out[row * samples + sample] = chosen;
    }
  }
}

void multinomial_with_replacement(Tensor& result, const Tensor& self, int64_t samples, OptGenerator generator) {
  const Tensor rows = (self.dim() == 1 ? self.unsqueeze(0) : self).contiguous();
  result.resize_({rows.size(0), samples});
  const auto type = rows.scalar_type();
  if (type != at::kFloat && type != at::kDouble && type != at::kHalf && type != at::kBFloat16)
    refuse_type("multinomial_kernel_cuda", type);
  constexpr int64_t most_rows_at_once = 65535;
  const auto turns = static_cast<uint64_t>((rows.size(0) - 1) / most_rows_at_once + 1);
  const Philox from = begin_draw(generator, self.device(), turns * 4);
  auto* out = result.mutable_data_ptr<int64_t>();
  if (type == at::kFloat)
    sample_rows<float>(rows, samples, from, out);
  else if (type == at::kDouble)
    sample_rows<double>(rows, samples, from, out);
  else if (type == at::kHalf)
    sample_rows<c10::Half>(rows, samples, from, out);
  else
    sample_rows<c10::BFloat16>(rows, samples, from, out);
  if (self.dim() == 1) result.resize_({samples});
}

// ---- permutations --------------------------------------------------------------------------------------------------

struct Keyed {
  uint64_t key;
  int64_t value;
};

// Sort stably by the lowest `bits` bits of the keys.
void sort(std::vector<Keyed>& items, int bits) {
  constexpr int digit = 11;
  std::vector<Keyed> other(items.size());
  for (int shift = 0; shift < bits; shift += digit) {
    const uint64_t mask = (uint64_t{1} << std::min(digit, bits - shift)) - 1;
    std::array<size_t, (1 << digit) + 1> places{};
    for (const auto& item : items) places[(item.key >> shift & mask) + 1]++;
    std::partial_sum(places.begin(), places.end(), places.begin());
    for (const auto& item : items) other[places[item.key >> shift & mask]++] = item;
    items.swap(other);
  }
}

// A GPU sorts the numbers by random keys, with enough bits to make equal keys unlikely, and shuffles elements whose
// keys are equal nevertheless.
Tensor& randperm(int64_t n, OptGenerator generator, Tensor& result) {
  check_fork();
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  at::native::check_supported_max_int_with_precision(n, result);
  result.resize_({n});
  if (n == 0) return result;
  const auto count = static_cast<double>(n);
  const int bits =
      std::min(64, static_cast<int>(std::ceil(std::log2(count - (6 * count * count + 1) / (std::log(0.9) * 12)))));
  const bool narrow = bits <= 32;
  const Tensor keys = at::empty({n}, result.options().dtype(narrow ? at::kInt : at::kLong));
  if (narrow)
    keys.random_(std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max(), generator);
  else
    keys.random_(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), generator);
  const Philox from = begin_draw(generator, result.device(), static_cast<uint64_t>(n));

  // Keys are signed if the sign is among their bits.
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  const uint64_t sign = (narrow ? bits == 32 : bits == 64) ? uint64_t{1} << (bits - 1) : 0;
  std::vector<Keyed> items(static_cast<size_t>(n));
  for (size_t i = 0; i < items.size(); i++) {
    const auto key = narrow ? static_cast<uint64_t>(keys.const_data_ptr<int32_t>()[i])
                            : static_cast<uint64_t>(keys.const_data_ptr<int64_t>()[i]);
    items[i] = {(key & mask) ^ sign, static_cast<int64_t>(i)};
  }
  sort(items, bits);
  for (size_t begin = 0; begin + 1 < items.size();) {
    size_t end = begin + 1;
    while (end < items.size() && items[end].key == items[begin].key) end++;
    if (end - begin > 1) {
      Words words(from, begin);
      for (size_t i = end - begin - 1; i > 0; i--)
        std::swap(items[begin + i].value, items[begin + words.next() % (i + 1)].value);
    }
    begin = end;
  }
  const bool direct = result.scalar_type() == at::kLong && result.is_contiguous();
  const Tensor order = direct ? result : at::empty({n}, result.options().dtype(at::kLong));
  auto* out = order.mutable_data_ptr<int64_t>();
  for (size_t i = 0; i < items.size(); i++) out[i] = items[i].value;
  if (!direct) result.copy_(order);
  return result;
}

}  // namespace

void install_samples() {
  at::native::bernoulli_tensor_stub.set_cuda_dispatch_ptr(&bernoulli_of);
  at::native::multinomial_with_replacement_stub.set_cuda_dispatch_ptr(&multinomial_with_replacement);
}

void register_samples(Registrar& registrar) {
  registrar.impl("randperm.generator_out", TORCH_FN(randperm));
}

}  // namespace hostdevice
