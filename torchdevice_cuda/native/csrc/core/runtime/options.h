// The settings of PYTORCH_CUDA_ALLOC_CONF, already parsed (Python parses the text).
//
// Each device has a copy, which its lock protects.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "runtime/blocks.h"

namespace hostdevice {

struct Options {
  static constexpr size_t kNever = std::numeric_limits<size_t>::max();
  static constexpr size_t kIntervals = 16;  // of sizes, by powers of two from 1 MiB on

  size_t max_split = kNever;  // blocks of this size or more are not split
  size_t large_segment = kLargeSegment;
  size_t max_rounding = kLargeSegment;      // how much larger than the request an unsplit block may be
  double garbage_collection_threshold = 0;  // release old segments above this fraction of the allowed memory
  std::array<size_t, kIntervals> divisions{};
  bool expandable = false;
  bool reuses_in_capture = false;  // reuse a block in a capture after the work of other streams that use it
  bool async = false;              // raise the errors of cudaMallocAsync
  double reject_fraction = -1;     // reject a request above this fraction of the device at once; negative: reject none

  // Return whether free blocks are chosen by size alone.
  bool is_plain() const {
    return max_split == kNever && !expandable;
  }
  size_t segment_size(size_t rounded) const {
    if (rounded <= kSmallRequest) return kSmallSegment;
    if (rounded < kMinLargeRequest) return large_segment;
    return round_up(rounded, kRoundLarge);
  }
  size_t round(size_t bytes) const {
    if (C10_LIKELY(!rounds_) || bytes < kMinBlock) return round_request(bytes);
    const int log = 63 - __builtin_clzll(bytes);
    const auto interval = static_cast<size_t>(log > kFirstLog ? log - kFirstLog : 0);
    const size_t parts = divisions[interval < kIntervals ? interval : kIntervals - 1];
    if (parts <= 1 || bytes <= kMinBlock * parts) return round_request(bytes);
    // Divide the next lower power of two into this many parts and round up to a multiple of one part.
    const size_t floor = size_t{1} << log;
    const size_t part = floor >> (63 - __builtin_clzll(parts));
    return part == 0 ? (floor == bytes ? bytes : floor << 1) : round_up(bytes, part);
  }
  void update_rounding() {
    rounds_ = false;
    for (const auto d : divisions) rounds_ = rounds_ || d > 1;
  }

 private:
  static constexpr int kFirstLog = 20;
  bool rounds_ = false;  // any of the divisions has an effect
};

}  // namespace hostdevice
