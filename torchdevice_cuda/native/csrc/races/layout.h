// The bytes that an access touches: a tensor's memory as runs of contiguous bytes at regular distances.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hostdevice {

class Layout {
 public:
  Layout() = default;
  Layout(uintptr_t begin, size_t bytes) : begin_(begin), end_(begin + bytes), run_(static_cast<int64_t>(bytes)) {}
  explicit Layout(const at::Tensor& tensor);

  uintptr_t begin() const {
    return begin_;
  }
  uintptr_t end() const {
    return end_;
  }
  bool is_empty() const {
    return begin_ == end_;
  }
  // Whether it touches every byte between its ends.
  bool is_dense() const {
    return repeats_.empty();
  }
  bool operator==(const Layout& other) const;
  // Return whether it touches a byte in [begin, end).
  bool touches(uintptr_t begin, uintptr_t end) const;
  // Return whether both touch one byte in [begin, end). Layouts of very many runs are compared in part, and may be
  // found not to overlap.
  bool overlaps(const Layout& other, uintptr_t begin, uintptr_t end) const;

 private:
  struct Repeat {
    int64_t stride, count;  // in bytes
    bool operator==(const Repeat& other) const {
      return stride == other.stride && count == other.count;
    }
  };
  bool touches_from(size_t dim, int64_t base, int64_t extent, int64_t lo, int64_t hi) const;
  // Call f with the ends of each run until it returns true; return whether it did.
  template <class F>
  bool each_run(size_t dim, uintptr_t base, int& left, const F& f) const;

  uintptr_t begin_ = 0, end_ = 0;
  int64_t run_ = 0;              // bytes
  std::vector<Repeat> repeats_;  // the largest stride first
};

}  // namespace hostdevice
