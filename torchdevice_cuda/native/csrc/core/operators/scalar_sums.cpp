#include "operators/scalar_sums.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace hostdevice {
namespace {

using at::Tensor;
using torch::jit::Stack;

constexpr size_t kArguments = 3;  // two operands, and a factor for the second
constexpr int64_t kGrain = 32768;

std::optional<float> read_scalar(const c10::IValue& v) {
  if (v.isTensor()) {
    const Tensor& t = v.toTensor();
    if (!t.defined() || t.dim() != 0 || !t.device().is_cpu() || t.is_complex()) return std::nullopt;
    return static_cast<float>(get_scalar(t).toDouble());
  }
  if (!v.isScalar() || v.isComplexDouble()) return std::nullopt;
  return static_cast<float>(v.toScalar().toDouble());
}

// Exclude tensors without dimensions: without others beside them they are scalars, of the promoted type.
bool is_summed(const c10::IValue& v, Types narrow) {
  if (!v.isTensor() || !v.toTensor().defined()) return false;
  const Tensor& t = v.toTensor();
  return t.dim() > 0 && t.layout() == at::kStrided && holds(narrow, t.scalar_type()) &&
      t.is_non_overlapping_and_dense();
}

template <class T>
void sum_each(const T* from, T* to, int64_t count, bool negated, float number) {
  for (int64_t i = 0; i < count; i++) {
    const auto x = static_cast<float>(from[i]);
    to[i] = static_cast<T>((negated ? -x : x) + number);
  }
}

#if defined(__x86_64__) && defined(__GNUC__)
constexpr int64_t kLanes = 8;
#define HOSTDEVICE_LANES __attribute__((target("avx2,f16c")))

HOSTDEVICE_LANES __m256 widen_lanes(__m128i x, const c10::Half*) {
  return _mm256_cvtph_ps(x);
}
HOSTDEVICE_LANES __m128i narrow_lanes(__m256 x, const c10::Half*) {
  return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
HOSTDEVICE_LANES __m256 widen_lanes(__m128i x, const c10::BFloat16*) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
// Round to nearest, ties to even; NaN stays NaN.
HOSTDEVICE_LANES __m128i narrow_lanes(__m256 x, const c10::BFloat16*) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
  const __m256i none = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  const __m256i kept = _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc0), none);
  return _mm_packus_epi32(_mm256_castsi256_si128(kept), _mm256_extracti128_si256(kept, 1));
}

template <class T>
HOSTDEVICE_LANES int64_t sum_lanes(const T* from, T* to, int64_t count, bool negated, float number) {
  const __m256 sign = _mm256_set1_ps(negated ? -0.0F : 0.0F), added = _mm256_set1_ps(number);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m256 x = widen_lanes(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)), from);
    const __m128i y = narrow_lanes(_mm256_add_ps(_mm256_xor_ps(x, sign), added), from);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), y);
  }
  return i;
}
#undef HOSTDEVICE_LANES

template <class T>
int64_t sum_vectorized(const T* from, T* to, int64_t count, bool negated, float number) {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  return has ? sum_lanes(from, to, count, negated, number) : 0;
}
#else
template <class T>
int64_t sum_vectorized(const T*, T*, int64_t, bool, float) {
  return 0;
}
#endif

template <class T>
void sum(const Tensor& from, const Tensor& to, const ScalarSum& sum) {
  const auto* read = from.const_data_ptr<T>();
  auto* written = to.mutable_data_ptr<T>();
  at::parallel_for(0, from.numel(), kGrain, [&](int64_t begin, int64_t end) {
    const int64_t done = begin + sum_vectorized(read + begin, written + begin, end - begin, sum.negated, sum.number);
    sum_each(read + done, written + done, end - done, sum.negated, sum.number);
  });
}

}  // namespace

c10::Scalar get_scalar(const Tensor& one) {
  if (one.scalar_type() == at::kDouble) return *one.const_data_ptr<double>();
  if (one.scalar_type() == at::kLong) return *one.const_data_ptr<int64_t>();
  return one.item();
}

std::optional<ScalarSum> find_scalar_sum(std::string_view op, Types narrow, const Stack& stack, size_t base) {
  const bool is_reversed = op == "rsub";
  if ((op != "add" && op != "sub" && !is_reversed) || stack.size() - base != kArguments) return std::nullopt;
  const c10::IValue& factor = stack[base + 2];
  if (!factor.isScalar() || factor.isComplexDouble() || factor.toScalar().toDouble() != 1) return std::nullopt;
  const size_t tensor = is_summed(stack[base], narrow) ? 0 : 1;
  const auto number = read_scalar(stack[base + 1 - tensor]);
  if (!number.has_value() || !is_summed(stack[base + tensor], narrow)) return std::nullopt;
  if (op == "add") return ScalarSum{tensor, false, *number};
  // The second operand is subtracted, except by rsub, which swaps them.
  const bool negated = (tensor == 1) != is_reversed;
  return ScalarSum{tensor, negated, negated ? *number : -*number};
}

void add_scalar(const ScalarSum& sum, bool fresh, Stack& stack, size_t base) {
  const Tensor from = stack[base + sum.tensor].toTensor();
  Tensor to = fresh ? at::empty_like(from) : from;
  if (from.scalar_type() == at::kHalf)
    hostdevice::sum<c10::Half>(from, to, sum);
  else
    hostdevice::sum<c10::BFloat16>(from, to, sum);
  stack.resize(base);
  stack.emplace_back(std::move(to));
}

}  // namespace hostdevice
