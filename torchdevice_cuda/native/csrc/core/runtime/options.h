// How the program wants memory to be allocated: what PYTORCH_CUDA_ALLOC_CONF says, already read (Python reads the
// text).
//
// Each device keeps a copy, which its lock protects.
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

  size_t max_split = kNever;  // blocks from this size on are not cut
  size_t large_segment = kLargeSegment;
  size_t max_rounding = kLargeSegment;  // how much larger than wanted a block may be that is not cut
  double collect_above = 0;             // the share of the allowed memory beyond which old segments go back
  std::array<size_t, kIntervals> divisions{};
  bool expandable = false;
  bool reuses_in_capture = false;  // a block that other streams use is free again behind them, not after the capture
  bool async = false;              // errors are those of cudaMallocAsync
  double reject_beyond = -1;       // the share of the device beyond which a request fails at once; negative: none does

  // Whether blocks are chosen in any way but by size.
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
    // A power of two is cut into so many parts; a whole number of them is taken.
    const size_t floor = size_t{1} << log;
    const size_t part = floor >> (63 - __builtin_clzll(parts));
    return part == 0 ? (floor == bytes ? bytes : floor << 1) : round_up(bytes, part);
  }
  void settle() {
    rounds_ = false;
    for (const auto d : divisions) rounds_ = rounds_ || d > 1;
  }

 private:
  static constexpr int kFirstLog = 20;
  bool rounds_ = false;  // any of the divisions does something
};

}  // namespace hostdevice
