#include "races/layout.h"

#include <algorithm>

namespace hostdevice {
namespace {

// The number of runs that a comparison of two layouts looks at.
constexpr int kMostRuns = 1 << 14;

}  // namespace

Layout::Layout(const at::Tensor& t) {
  if (t.numel() == 0 || !t.has_storage() || !t.storage().data()) return;
  const auto item = static_cast<int64_t>(t.itemsize());
  begin_ = reinterpret_cast<uintptr_t>(t.storage().data()) + static_cast<uintptr_t>(t.storage_offset() * item);
  run_ = item;
  if (t.is_contiguous()) {
    run_ = t.numel() * item;
  } else {
    for (int64_t d = 0; d < t.dim(); d++)
      if (t.size(d) > 1 && t.stride(d) != 0) repeats_.push_back({t.stride(d) * item, t.size(d)});
    std::sort(repeats_.begin(), repeats_.end(), [](const Repeat& a, const Repeat& b) { return a.stride > b.stride; });
    while (!repeats_.empty() && repeats_.back().stride <= run_) {
      run_ += (repeats_.back().count - 1) * repeats_.back().stride;
      repeats_.pop_back();
    }
  }
  int64_t extent = run_;
  for (const auto& r : repeats_) extent += r.stride * (r.count - 1);
  end_ = begin_ + static_cast<uintptr_t>(extent);
}

bool Layout::operator==(const Layout& other) const {
  return begin_ == other.begin_ && end_ == other.end_ && run_ == other.run_ && repeats_ == other.repeats_;
}

bool Layout::touches(uintptr_t begin, uintptr_t end) const {
  if (begin >= end_ || end <= begin_) return false;
  if (is_dense()) return true;
  const auto at = [this](uintptr_t address) { return static_cast<int64_t>(address) - static_cast<int64_t>(begin_); };
  return touches_from(0, 0, static_cast<int64_t>(end_ - begin_), at(begin), at(end));
}

// Whether the runs of the dimensions from `dim` on, which begin at `base` and span `extent` bytes, touch [lo, hi).
bool Layout::touches_from(size_t dim, int64_t base, int64_t extent, int64_t lo, int64_t hi) const {
  if (base >= hi || base + extent <= lo) return false;
  if (dim == repeats_.size()) return true;
  const auto& r = repeats_[dim];
  const int64_t inner = extent - r.stride * (r.count - 1);
  // The repetitions that overlap [lo, hi); those between the first and the last lie in it.
  const int64_t first = lo - base - inner < 0 ? 0 : (lo - base - inner) / r.stride + 1;
  const int64_t last = std::min(r.count - 1, (hi - 1 - base) / r.stride);
  if (last - first > 1) return true;
  for (int64_t i = first; i <= last; i++)
    if (touches_from(dim + 1, base + i * r.stride, inner, lo, hi)) return true;
  return false;
}

template <class F>
bool Layout::each_run(size_t dim, uintptr_t base, int& left, const F& f) const {
  if (dim == repeats_.size()) return left-- > 0 && f(base, base + static_cast<uintptr_t>(run_));
  for (int64_t i = 0; i < repeats_[dim].count && left > 0; i++)
    if (each_run(dim + 1, base + static_cast<uintptr_t>(i * repeats_[dim].stride), left, f)) return true;
  return false;
}

bool Layout::overlaps(const Layout& other, uintptr_t begin, uintptr_t end) const {
  begin = std::max({begin, begin_, other.begin_});
  end = std::min({end, end_, other.end_});
  if (begin >= end) return false;
  if (other.is_dense()) return touches(begin, end);
  if (is_dense()) return other.touches(begin, end);
  int left = kMostRuns;
  return each_run(0, begin_, left, [&](uintptr_t from, uintptr_t to) {
    from = std::max(from, begin);
    to = std::min(to, end);
    return from < to && other.touches(from, to);
  });
}

}  // namespace hostdevice
