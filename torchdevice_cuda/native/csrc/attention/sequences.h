// What the queries of a sequence may attend to, and how the sequences of a batch lie in the arguments of the kernels.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/index_select.h>

#include <optional>
#include <vector>

#include "operators/composites.h"

namespace hostdevice {

// The keys that a query may attend to, as differences of positions: from the first to the last, both included.
struct Band {
  std::optional<int64_t> first, last;
  // The CPU's kernel knows no other than the causal mask.
  bool is_known_to_cpu() const {
    return !first && last.value_or(0) == 0;
  }
};
inline Band from_start(bool causal) {
  return {std::nullopt, causal ? std::optional<int64_t>(0) : std::nullopt};
}

enum class Mask : uint8_t { None, FromStart, FromEnd };

// How far a query may look back and ahead. FromEnd: the last query is at the position of the last key.
struct Window {
  static constexpr int64_t kUnbounded = -1;
  Mask mask;
  int64_t back, ahead;

  Band band(const at::Tensor& q, const at::Tensor& k) const {
    const int64_t keys = k.size(-2), own = mask == Mask::FromEnd ? keys - q.size(-2) : 0;
    Band result;
    if (back >= 0 && back < keys) result.first = own - back;
    if (ahead >= 0 && ahead < keys) result.last = own + ahead;
    return result;
  }
};

// Arguments of the underlying kernels: heads come after positions, and the sequences of a batch may be packed into one
// tensor, with their start offsets. A batch of equally long sequences has a batch dimension instead. Keys may be fewer
// than there is room for (`used`), and lie in pages, whose numbers the rows of a table give.
struct Sequences {
  Sequences(
      const at::Tensor& q, const OptTensor& starts_q, const OptTensor& starts_k, const OptTensor& used = std::nullopt,
      const OptTensor& pages = std::nullopt)
      : packed(is_defined(starts_q)), paged(is_defined(pages)) {
    TORCH_CHECK(
        packed == is_defined(starts_k) || paged,
        "pass the start offsets of both the queries and the keys, or of neither");
    if (packed) from_q = numbers(*starts_q);
    if (is_defined(starts_k)) from_k = numbers(*starts_k);
    if (is_defined(used)) lengths = numbers(*used);
    if (paged) {
      TORCH_CHECK(is_defined(used), "paged keys need seqused_k, the number of keys of each sequence");
      table = *pages;
    }
    batched = packed && q.dim() == 4;  // some callers add a batch dimension of size 1
    batch = packed ? from_q.size() - 1 : lengths.empty() ? 1 : static_cast<size_t>(q.size(0));
  }
  size_t count() const {
    return batch;
  }
  at::Tensor queries(const at::Tensor& t, size_t i) const {
    if (packed) return (batched ? t.squeeze(0) : t).slice(0, from_q[i], from_q[i + 1]).transpose(0, 1);
    return one(t, i).transpose(1, 2);
  }
  at::Tensor keys(const at::Tensor& t, size_t i) const {
    if (paged) {
      const int64_t rows = t.size(1), wanted = (lengths[i] + rows - 1) / rows;
      const auto sequence = at::index_select(t, 0, table.select(0, static_cast<int64_t>(i)).slice(0, 0, wanted));
      const auto keys = sequence.flatten(0, 1).slice(0, 0, lengths[i]).transpose(0, 1);
      return packed ? keys : keys.unsqueeze(0);
    }
    if (packed) {
      const int64_t end = lengths.empty() ? from_k[i + 1] : from_k[i] + lengths[i];
      return (batched ? t.squeeze(0) : t).slice(0, from_k[i], end).transpose(0, 1);
    }
    const auto keys = one(t, i).transpose(1, 2);
    return lengths.empty() ? keys : keys.slice(-2, 0, lengths[i]);
  }
  bool packed, paged, batched = false;
  std::vector<int64_t> from_q;

 private:
  static std::vector<int64_t> numbers(const at::Tensor& t) {
    const at::Tensor here = t.cpu().to(at::kLong).contiguous();
    return {here.const_data_ptr<int64_t>(), here.const_data_ptr<int64_t>() + here.numel()};
  }
  at::Tensor one(const at::Tensor& t, size_t i) const {
    return lengths.empty() ? t : t.narrow(0, static_cast<int64_t>(i), 1);
  }
  size_t batch = 1;
  std::vector<int64_t> from_k, lengths;
  at::Tensor table;
};

}  // namespace hostdevice
