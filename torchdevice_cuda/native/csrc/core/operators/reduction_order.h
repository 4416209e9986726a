// How CUDA's reduction kernel (ATen/native/cuda/Reduce.cuh) divides elements among threads. This file does not depend
// on PyTorch.
#pragma once

#include <cstdint>

#include "runtime/multiprocessors.h"

namespace hostdevice {

// Memory around its reduced dimension: `before` times `length` times `after` elements.
struct ReducedShape {
  int64_t before, length, after;
  int64_t offset;  // of the first element from an aligned address, in elements

  bool has_rows() const {
    return after == 1;
  }
  int64_t outputs() const {
    return before * after;
  }
};

// `lanes` x `warps` x `blocks` threads reduce the elements of a result in turn. A part that is 1 does not divide them.
struct ReductionOrder {
  bool loads_vectors = false;  // a thread's accumulators take neighbors
  int64_t lanes = 1, warps = 1, blocks = 1;
  int64_t block_width = 1, block_height = 1;

  int64_t threads() const {
    return lanes * warps;
  }
  // The threads of the last block that combine the results of all blocks.
  int64_t joining_threads(bool has_rows) const {
    return has_rows ? block_width * block_height : block_height;
  }
};

// `accumulators`: those of one thread.
ReductionOrder find_order(const ReducedShape& shape, int64_t accumulators, const Multiprocessors& gpu);

}  // namespace hostdevice
