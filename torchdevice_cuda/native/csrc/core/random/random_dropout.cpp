// Fused dropout, and the dropout of attention.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <memory>

#include "compat.h"
#include "operators/random.h"
#include "operators/random_launch.h"
#include "operators/recorded.h"
#include "runtime/captured_allocations.h"

namespace hostdevice {
namespace {

using at::Tensor;

// ---- dropout -------------------------------------------------------------------------------------------------------

// Return how many elements that are adjacent in memory a thread computes (CUDA's vector size); 1 if elements are
// numbered by their index in the tensor instead.
int64_t get_vector_size(const Tensor& self) {
  if (!self.is_non_overlapping_and_dense()) return 1;
  const auto item = static_cast<int64_t>(self.itemsize());
  const auto address = reinterpret_cast<uintptr_t>(self.const_data_ptr());
  int64_t size = get_dropout_vector_size(item);
  while (size > 1 && (address % static_cast<uintptr_t>(size * item) || self.numel() % size)) size /= 2;
  return size;
}

// Input, output and mask have the same layout.
struct Dropout {
  Dropout(const Tensor& from, const Tensor& to, const Tensor& kept, double keep)
      : in(from.const_data_ptr()),
        out(to.mutable_data_ptr()),
        mask(static_cast<uint8_t*>(kept.mutable_data_ptr())),
        type(from.scalar_type()),
        numel(from.numel()),
        // CUDA compares in the type that it computes in.
        chance(type == at::kDouble ? keep : static_cast<float>(keep)) {}

  // Apply the mask to elements whose mask is already drawn.
  template <class T>
  void apply(int64_t begin, int64_t count) const {
    const auto* values = static_cast<const T*>(in) + begin;
    auto* results = static_cast<T*>(out) + begin;
    const auto* kept = mask + begin;
    const auto scale = static_cast<Wide<T>>(1.0 / chance);
    vectorized([&] {
      for (int64_t i = 0; i < count; i++)
        results[i] = static_cast<T>(static_cast<Wide<T>>(values[i]) * static_cast<Wide<T>>(kept[i]) * scale);
    });
  }
  void apply(int64_t begin, int64_t count) const {
    for_floating("fused_dropout", type, [&](auto value) { apply<decltype(value)>(begin, count); });
  }

  // A thread's elements are as far apart as there are threads.
  void apply_strided(const Launch& launch, const Philox& from) const {
    launch.each([&](int64_t step, int64_t first, int lanes) {
      Four<uint32_t> words;
      draw_words(from, static_cast<uint64_t>(step), static_cast<uint64_t>(first), lanes, words);
      for (int64_t k = 0; k < 4; k++) {
        const int64_t begin = (step * 4 + k) * launch.threads + first, count = std::min<int64_t>(lanes, numel - begin);
        if (count <= 0) return;
        for (int64_t i = 0; i < count; i++) mask[begin + i] = static_cast<double>(unit(words.of[k][i])) < chance;
        apply(begin, count);
      }
    });
  }

  // A thread computes `size` adjacent elements per step. It draws whole blocks of four words.
  void apply_vectorized(Launch launch, const Philox& from, int64_t size) const {
    const int64_t blocks = (size + 3) / 4, of_block = std::min<int64_t>(size, 4);
    launch.steps = (numel - 1) / (launch.threads * size) + 1;
    launch.each([&](int64_t step, int64_t first, int lanes) {
      const int64_t begin = (step * launch.threads + first) * size;
      if (begin >= numel) return;
      lanes = static_cast<int>(std::min<int64_t>(lanes, (numel - begin) / size));
      Four<uint32_t> words;
      for (int64_t b = 0; b < blocks; b++) {
        draw_words(from, static_cast<uint64_t>(step * blocks + b), static_cast<uint64_t>(first), lanes, words);
        auto* kept = mask + begin + b * 4;
        for (int64_t k = 0; k < of_block; k++)
          for (int64_t i = 0; i < lanes; i++) kept[i * size + k] = static_cast<double>(unit(words.of[k][i])) < chance;
      }
      apply(begin, lanes * size);
    });
  }

  const void* in;
  void* out;
  uint8_t* mask;
  c10::ScalarType type;
  int64_t numel;
  double chance;
};

// ---- attention -----------------------------------------------------------------------------------------------------

// Draw one number per element from a single Philox sequence, as CUDA's attention does, whichever thread draws it.
template <class F>
void draw_sequence(const Philox& from, int64_t numel, const F& f) {
  in_parallel(numel, int64_t{1} << 17, [&](int64_t begin, int64_t end) {
    Words words({from.seed, from.offset + static_cast<uint64_t>(begin)}, 0);
    for (int64_t i = begin; i < end; i++) f(i, words.unit());
  });
}

}  // namespace

std::tuple<Tensor, Tensor> drop(
    const Tensor& self, double keep, c10::ScalarType mask_type, const OptGenerator& generator) {
  Tensor mask = at::empty_like(self, self.options().dtype(mask_type));
  const int64_t numel = self.numel();
  if (numel == 0) return {self, mask};
  check_floating("fused_dropout", self.scalar_type());
  const int64_t vector_size = get_vector_size(self);
  // Without vectors, elements are numbered by their index, so compute on contiguous tensors.
  const Tensor in = vector_size > 1 ? self : self.contiguous();
  Tensor out = at::empty_like(self);
  const bool writes_directly = vector_size > 1 || out.is_contiguous();
  Tensor out_here = writes_directly ? out : at::empty_like(in),
         mask_here = writes_directly ? mask : at::empty_like(in, mask.options());
  const Launch launch(numel, 4);
  const Philox from = begin_draw(generator, self.device(), launch.words());
  const Dropout dropout(in, out_here, mask_here, keep);
  if (vector_size > 1)
    dropout.apply_vectorized(launch, from, vector_size);
  else
    dropout.apply_strided(launch, from);
  if (!writes_directly) {
    out.copy_(out_here);
    mask.copy_(mask_here);
  }
  return {out, mask};
}

Tensor& fill_with_sequence(Tensor& self, double, int64_t seed, int64_t offset) {
  TORCH_CHECK(self.is_contiguous() && self.scalar_type() == at::kFloat);
  auto* values = self.mutable_data_ptr<float>();
  const Philox from{static_cast<uint64_t>(seed), static_cast<uint64_t>(offset)};
  draw_sequence(from, self.numel(), [values](int64_t i, float drawn) { values[i] = drawn; });
  return self;
}

namespace {

Tensor empty_mask(const Tensor& query, int64_t keys) {
  return at::empty(
      {query.size(0), query.size(1), query.size(2), keys}, query.options().dtype(at::kBool).requires_grad(false));
}

void fill_mask(bool* kept, int64_t numel, double p, const Philox& from) {
  const auto limit = static_cast<float>(p);
  draw_sequence(from, numel, [=](int64_t i, float drawn) { kept[i] = drawn > limit; });
}

}  // namespace

Tensor attention_mask(const Tensor& query, int64_t keys, double p, const Tensor& seed, const Tensor& offset) {
  const Tensor mask = empty_mask(query, keys);
  auto* kept = mask.mutable_data_ptr<bool>();
  const int64_t numel = mask.numel();
  const auto work = [&](const auto& from) {
    work_on_device("attention's dropout", query.device().index(), [=] { fill_mask(kept, numel, p, from()); });
  };
  const auto *first = seed.const_data_ptr<int64_t>(), *second = offset.const_data_ptr<int64_t>();
  const auto read = [=] { return Philox{static_cast<uint64_t>(*first), static_cast<uint64_t>(*second)}; };
  // Read host tensors now, because they may be freed before a graph is replayed. Device tensors hold what the last
  // replay drew from.
  if (seed.is_cpu())
    work([from = read()] { return from; });
  else
    work(read);
  return mask;
}

AttentionMask draw_attention_mask(const Tensor& query, int64_t keys, double p, std::optional<int64_t> words) {
  const Tensor mask = empty_mask(query, keys);
  const int64_t numel = mask.numel();
  const auto on = query.device();
  const bool captured =
      t_captured.recording || t_captured.replaying || (has_captures() && current_capture(on.index()) != nullptr);
  const auto numbers = at::dtype(at::kLong).device(captured ? on : c10::Device(at::kCPU));
  const Tensor seed = at::empty({}, numbers), offset = at::empty({}, numbers);
  work_on_device(
      "attention's dropout", on.index(),
      // Raw pointers suffice: host tensors are written at once, and during a capture the tensors are in the graph's
      // memory.
      [=, kept = mask.mutable_data_ptr<bool>(), first = seed.mutable_data_ptr<int64_t>(),
       second = offset.mutable_data_ptr<int64_t>()] {
        const Philox from = begin_draw(std::nullopt, on, static_cast<uint64_t>(words.value_or(numel)));
        *first = static_cast<int64_t>(from.seed);
        *second = static_cast<int64_t>(from.offset);
        fill_mask(kept, numel, p, from);
      });
  return {mask, seed, offset};
}

}  // namespace hostdevice
