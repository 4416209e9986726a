// Reductions of float32 in the order of CUDA's kernel (reduction_order.h). Lanes of a loop are neighboring threads.
// This file does not depend on PyTorch.
//
// The values of several threads are stored in planes: one for a sum, three for moments.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>

#include "operators/instruction_sets.h"
#include "operators/reduction_order.h"

namespace hostdevice {

// One call. A group is the results of neighboring columns of one of `before`.
struct Reduction {
  const float* data;
  ReducedShape shape;
  ReductionOrder order;
  float factor;     // of a mean; the correction of a variance
  bool takes_root;  // for a standard deviation
  float* results;
  float* means;      // may be null
  float* of_blocks;  // what each block found, if there are several
  int64_t columns;

  int64_t strips() const {
    return (shape.after + columns - 1) / columns;
  }
  int64_t groups() const {
    return shape.before * strips();
  }
};
// Reduce the blocks [begin, end) of all groups; or combine what the blocks of the groups [begin, end) found.
enum class Phase { Blocks, Groups };
using ReducePart = void (*)(const Reduction& r, Phase phase, int64_t begin, int64_t end);
struct Reducer {
  int64_t accumulators, planes;
  ReducePart run;
};

// ---- operations ----------------------------------------------------------------------------------------------------

struct Total {
  float value;
};
struct Sum {
  using State = Total;
  static constexpr int kPlanes = 1, kAccumulators = 4;
  static constexpr bool kAdds = true;
  static HOSTDEVICE_WIDE_INLINE State start() {
    return {0};
  }
  static HOSTDEVICE_WIDE_INLINE State reduce(State a, float x) {
    return {a.value + x};
  }
  static HOSTDEVICE_WIDE_INLINE State combine(State a, State b) {
    return {a.value + b.value};
  }
  static HOSTDEVICE_WIDE_INLINE void finish(const Reduction& r, int64_t at, State s) {
    r.results[at] = s.value * r.factor;
  }
};
struct SumOfSquares : Sum {
  static HOSTDEVICE_WIDE_INLINE State reduce(State a, float x) {
    return {std::fma(x, x, a.value)};
  }
  static HOSTDEVICE_WIDE_INLINE void finish(const Reduction& r, int64_t at, State s) {
    r.results[at] = std::sqrt(s.value);
  }
};

// ---- planes --------------------------------------------------------------------------------------------------------

template <class Op>
HOSTDEVICE_WIDE_INLINE typename Op::State load(const float* at, int64_t plane) {
  if constexpr (Op::kPlanes == 1)
    return {*at};
  else
    return {at[0], at[plane], at[2 * plane]};
}
template <class Op>
HOSTDEVICE_WIDE_INLINE void store(float* at, int64_t plane, const typename Op::State& s) {
  if constexpr (Op::kPlanes == 1) {
    *at = s.value;
  } else {
    at[0] = s.mean;
    at[plane] = s.squares;
    at[2 * plane] = s.count;
  }
}
template <class Op>
HOSTDEVICE_WIDE_INLINE void clear(float* to, int64_t plane, int64_t count) {
  for (int64_t j = 0; j < count; j++) store<Op>(to + j, plane, Op::start());
}
// Reduce several rows of elements, `step` elements apart.
template <class Op, int kRows, bool kIsFirst>
HOSTDEVICE_WIDE_INLINE void take(
    float* __restrict to, int64_t plane, const float* __restrict from, int64_t step, int64_t count) {
  HOSTDEVICE_INDEPENDENT
  for (int64_t j = 0; j < count; j++) {
    typename Op::State s = kIsFirst ? Op::start() : load<Op>(to + j, plane);
    for (int row = 0; row < kRows; row++) s = Op::reduce(s, from[row * step + j]);
    store<Op>(to + j, plane, s);
  }
}
template <class Op>
HOSTDEVICE_WIDE void take_few(float* to, int64_t plane, const float* from, int64_t count) {
  int64_t at = 0;
  for (; at + 16 <= count; at += 16) take<Op, 1, false>(to + at, plane, from + at, 0, 16);
  for (; at + 4 <= count; at += 4) take<Op, 1, false>(to + at, plane, from + at, 0, 4);
  for (; at < count; at++) take<Op, 1, false>(to + at, plane, from + at, 0, 1);
}
// Combine values with others.
template <class Op>
HOSTDEVICE_WIDE_INLINE void fold(
    float* __restrict to, int64_t plane, const float* __restrict from, int64_t from_plane, int64_t count) {
  HOSTDEVICE_INDEPENDENT
  for (int64_t j = 0; j < count; j++)
    store<Op>(to + j, plane, Op::combine(load<Op>(to + j, plane), load<Op>(from + j, from_plane)));
}
// Combine values with those of the threads' next accumulators, which take one element each.
template <class Op>
HOSTDEVICE_WIDE_INLINE void take_next(
    float* __restrict to, int64_t plane, const float* __restrict from, int64_t count) {
  HOSTDEVICE_INDEPENDENT
  for (int64_t j = 0; j < count; j++)
    store<Op>(to + j, plane, Op::combine(load<Op>(to + j, plane), Op::reduce(Op::start(), from[j])));
}
// Combine halves, down to the first of `count` values, which are `columns` wide.
template <class Op>
HOSTDEVICE_WIDE_INLINE void fold_halves(float* values, int64_t plane, int64_t count, int64_t columns) {
  for (int64_t half = count / 2; half > 0; half /= 2)
    fold<Op>(values, plane, values + half * columns, plane, half * columns);
}
template <class Op>
HOSTDEVICE_WIDE void fold_threads(float* values, int64_t plane, int64_t count, int64_t columns) {
  fold_halves<Op>(values, plane, count, columns);
}
// Combine the accumulators of each thread, which are `next` apart; those of the next thread are `apart`.
template <class Op>
HOSTDEVICE_WIDE void fold_accumulators(
    const float* __restrict sums, int64_t sums_plane, int64_t next, int64_t apart, int64_t threads,
    float* __restrict values, int64_t plane) {
  HOSTDEVICE_INDEPENDENT
  for (int64_t t = 0; t < threads; t++) {
    typename Op::State s = load<Op>(sums + t * apart, sums_plane);
    for (int i = 1; i < Op::kAccumulators; i++) s = Op::combine(s, load<Op>(sums + t * apart + i * next, sums_plane));
    store<Op>(values + t, plane, s);
  }
}
// Add four neighbors each, by transposing squares of four: compilers find no such code. `threads` is a multiple of 8.
HOSTDEVICE_WIDE_INLINE void add_neighbors(const float* sums, int64_t threads, float* values) {
  for (int64_t t = 0; t < threads; t += 8) {
    Eight of0, of1, of2, of3;  // an array would be copied through memory
    std::memcpy(&of0, sums + 4 * t, sizeof(Eight));
    std::memcpy(&of1, sums + 4 * t + 8, sizeof(Eight));
    std::memcpy(&of2, sums + 4 * t + 16, sizeof(Eight));
    std::memcpy(&of3, sums + 4 * t + 24, sizeof(Eight));
    const Eight a = HOSTDEVICE_SHUFFLE(of0, of2, 0, 1, 2, 3, 8, 9, 10, 11);
    const Eight b = HOSTDEVICE_SHUFFLE(of0, of2, 4, 5, 6, 7, 12, 13, 14, 15);
    const Eight c = HOSTDEVICE_SHUFFLE(of1, of3, 0, 1, 2, 3, 8, 9, 10, 11);
    const Eight d = HOSTDEVICE_SHUFFLE(of1, of3, 4, 5, 6, 7, 12, 13, 14, 15);
    const Eight ab = HOSTDEVICE_SHUFFLE(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
    const Eight cd = HOSTDEVICE_SHUFFLE(c, d, 0, 8, 1, 9, 4, 12, 5, 13);
    const Eight ab_last = HOSTDEVICE_SHUFFLE(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
    const Eight cd_last = HOSTDEVICE_SHUFFLE(c, d, 2, 10, 3, 11, 6, 14, 7, 15);
    const Eight sum = ((HOSTDEVICE_SHUFFLE(ab, cd, 0, 1, 8, 9, 4, 5, 12, 13) +
                        HOSTDEVICE_SHUFFLE(ab, cd, 2, 3, 10, 11, 6, 7, 14, 15)) +
                       HOSTDEVICE_SHUFFLE(ab_last, cd_last, 0, 1, 8, 9, 4, 5, 12, 13)) +
        HOSTDEVICE_SHUFFLE(ab_last, cd_last, 2, 3, 10, 11, 6, 7, 14, 15);
    std::memcpy(values + t, &sum, sizeof(sum));
  }
}

// ---- the threads of a block ----------------------------------------------------------------------------------------

// Reduce `count` neighbors every `step` elements, of which `room` are left.
template <class Op>
HOSTDEVICE_WIDE_INLINE void take_rounds(
    float* to, int64_t plane, const float* from, int64_t room, int64_t step, int64_t count) {
  const int64_t whole = room < count ? 0 : (room - count) / step + 1;
  int64_t round = 0;
  if (whole >= 4) {
    take<Op, 4, true>(to, plane, from, step, count);
    round = 4;
  } else if (whole > 0) {
    take<Op, 1, true>(to, plane, from, step, count);
    round = 1;
  } else {
    clear<Op>(to, plane, count);
  }
  for (; round + 4 <= whole; round += 4) take<Op, 4, false>(to, plane, from + round * step, step, count);
  for (; round < whole; round++) take<Op, 1, false>(to, plane, from + round * step, step, count);
  if (whole * step < room) take_few<Op>(to, plane, from + whole * step, room - whole * step);
}

template <class Op>
HOSTDEVICE_WIDE void take_many_rounds(
    float* to, int64_t plane, const float* from, int64_t room, int64_t step, int64_t count) {
  take_rounds<Op>(to, plane, from, room, step, count);
}

// Reduce a row's part of one block: a thread loads vectors from aligned addresses. The first threads of the first block
// take the elements before and after those.
template <class Op>
HOSTDEVICE_WIDE_INLINE void reduce_vectors(
    const float* row, int64_t length, int64_t block, int64_t blocks, int64_t threads, float* sums, float* values,
    int64_t plane) {
  constexpr int64_t kEach = Op::kAccumulators;
  const int64_t width = threads * kEach, step = blocks * width;
  const auto offset = static_cast<int64_t>(reinterpret_cast<uintptr_t>(row) / sizeof(float) % kEach);
  const int64_t head = offset ? kEach - offset : 0, tail = (length - head) % kEach;
  const float* from = row + head + block * width;
  const int64_t room = length - head - tail - block * width;
  if (block == 0 && head) {
    constexpr int64_t kFirst = kEach * kEach;
    clear<Op>(sums, width, kFirst);
    for (int64_t i = 0; i < head; i++) store<Op>(sums + kEach * (offset + i), width, Op::reduce(Op::start(), row[i]));
    for (int64_t at = 0; at < room; at += step) take_few<Op>(sums, width, from + at, std::min(kFirst, room - at));
    take_rounds<Op>(sums + kFirst, width, from + kFirst, room - kFirst, step, width - kFirst);
  } else {
    take_rounds<Op>(sums, width, from, room, step, width);
  }
  if (block == 0)
    for (int64_t i = 0; i < tail; i++) {
      float* at = sums + kEach * i;
      store<Op>(at, width, Op::reduce(load<Op>(at, width), row[length - tail + i]));
    }
  if constexpr (Op::kAdds)
    if (threads % 8 == 0) return add_neighbors(sums, threads, values);
  fold_accumulators<Op>(sums, width, 1, kEach, threads, values, plane);
}

// In floats: what is reduced at a time stays in the nearest cache.
constexpr int64_t kMostSums = 4096, kStrip = 512;

// Reduce `width` neighbors every `step` elements; a thread takes every fourth of them with another accumulator.
template <class Op>
HOSTDEVICE_WIDE void reduce_neighbors(
    const float* from, int64_t room, int64_t step, int64_t width, float* sums, float* values, int64_t plane) {
  constexpr int64_t kEach = Op::kAccumulators;
  if (step == width && kEach * width <= kMostSums) {
    const int64_t all = kEach * width;
    take_many_rounds<Op>(sums, all, from, room, all, all);
    return fold_accumulators<Op>(sums, all, width, 1, width, values, plane);
  }
  for (int64_t first = 0; first < width; first += kStrip) {
    const int64_t count = std::min(kStrip, width - first);
    take_many_rounds<Op>(values + first, plane, from + first, room - first, kEach * step, count);
    for (int64_t i = 1; i < kEach && room - first > i * step; i++) {
      take_many_rounds<Op>(sums, kStrip, from + first + i * step, room - first - i * step, kEach * step, count);
      fold<Op>(values + first, plane, sums, kStrip, count);
    }
  }
}

// Reduce the elements of one block, for neighboring columns: the first values are the results.
template <class Op>
HOSTDEVICE_WIDE void reduce_block(
    const Reduction& r, const float* data, int64_t first, int64_t columns, int64_t block, float* sums, float* values,
    int64_t plane) {
  const auto& order = r.order;
  const int64_t threads = order.threads(), after = r.shape.after, all = r.shape.length * after;
  if (order.loads_vectors) {
    reduce_vectors<Op>(data, r.shape.length, block, order.blocks, threads, sums, values, plane);
  } else {
    // Threads of all columns are neighbors; of some, those of one warp.
    const int64_t parts = columns == after ? 1 : order.warps, width = threads / parts * columns;
    for (int64_t part = 0; part < parts; part++) {
      const int64_t start = (block * parts + part) * (threads / parts) * after + first;
      reduce_neighbors<Op>(
          data + start, all - start, order.blocks * threads * after, width, sums, values + part * width, plane);
    }
  }
  const int64_t of_warp = order.lanes * columns;
  if (order.lanes == 1) return fold_threads<Op>(values, plane, order.warps, columns);
  for (int64_t warp = 0; warp < order.warps; warp++)
    fold_threads<Op>(values + warp * of_warp, plane, order.lanes, columns);
  for (int64_t half = order.warps / 2; half > 0; half /= 2)
    for (int64_t warp = 0; warp < half; warp++)
      fold<Op>(values + warp * of_warp, plane, values + (warp + half) * of_warp, plane, columns);
}

// ---- parts of a call -----------------------------------------------------------------------------------------------

// Reduce rows that one warp each reduces.
template <class Op, int kLanes, bool kLoadsVectors>
HOSTDEVICE_WIDE void reduce_rows(const Reduction& r, int64_t begin, int64_t end) {
  const int64_t length = r.shape.length;
  float sums[Op::kPlanes * Op::kAccumulators * kLanes], values[Op::kPlanes * kLanes];
  for (int64_t i = begin; i < end; i++) {
    const float* row = r.data + i * length;
    if constexpr (kLoadsVectors) {
      reduce_vectors<Op>(row, length, 0, 1, kLanes, sums, values, kLanes);
    } else {
      take<Op, 1, true>(values, kLanes, row, 0, kLanes);
      int64_t at = kLanes;
      for (; at + kLanes <= length; at += kLanes) take_next<Op>(values, kLanes, row + at, kLanes);
      if (at < length) take_next<Op>(values, kLanes, row + at, length - at);
    }
    fold_halves<Op>(values, kLanes, kLanes, 1);
    Op::finish(r, i, load<Op>(values, kLanes));
  }
}
// Return whether there is a loop for rows of this length.
template <class Op>
bool reduce_short_rows(const Reduction& r, int64_t begin, int64_t end) {
  if (!r.shape.has_rows() || r.order.warps != 1 || r.order.blocks != 1) return false;
  if (r.order.loads_vectors) return r.order.lanes == 32 && (reduce_rows<Op, 32, true>(r, begin, end), true);
  switch (r.order.lanes) {
    case 32:
      return reduce_rows<Op, 32, false>(r, begin, end), true;
    case 16:
      return reduce_rows<Op, 16, false>(r, begin, end), true;
    case 8:
      return reduce_rows<Op, 8, false>(r, begin, end), true;
    case 4:
      return reduce_rows<Op, 4, false>(r, begin, end), true;
    default:
      return false;
  }
}

template <class Op>
HOSTDEVICE_WIDE void store_results(
    const Reduction& r, int64_t group, int64_t columns, const float* values, int64_t plane) {
  const int64_t first = group / r.strips() * r.shape.after + group % r.strips() * r.columns;
  for (int64_t j = 0; j < columns; j++) Op::finish(r, first + j, load<Op>(values + j, plane));
}

template <class Op>
HOSTDEVICE_WIDE void reduce_blocks(
    const Reduction& r, int64_t begin, int64_t end, float* sums, float* values, int64_t plane) {
  const int64_t blocks = r.order.blocks, all = r.groups() * blocks * r.columns;
  for (int64_t task = begin; task < end; task++) {
    const int64_t group = task / blocks, first = group % r.strips() * r.columns;
    const int64_t columns = std::min(r.columns, r.shape.after - first);
    const float* data = r.data + group / r.strips() * r.shape.length * r.shape.after;
    reduce_block<Op>(r, data, first, columns, task % blocks, sums, values, plane);
    if (blocks == 1) {
      store_results<Op>(r, group, columns, values, plane);
    } else {
      float* to = r.of_blocks + task * r.columns;
      for (int64_t j = 0; j < columns; j++) store<Op>(to + j, all, load<Op>(values + j, plane));
    }
  }
}
// Combine what the blocks found, as the last of them does.
template <class Op>
HOSTDEVICE_WIDE void combine_blocks(const Reduction& r, int64_t begin, int64_t end, float* values, int64_t plane) {
  const int64_t threads = r.order.joining_threads(r.shape.has_rows()), blocks = r.order.blocks;
  const int64_t all = r.groups() * blocks * r.columns;
  for (int64_t group = begin; group < end; group++) {
    const int64_t columns = std::min(r.columns, r.shape.after - group % r.strips() * r.columns);
    clear<Op>(values, plane, threads * columns);
    for (int64_t block = 0; block < blocks; block++)
      fold<Op>(
          values + block % threads * columns, plane, r.of_blocks + (group * blocks + block) * r.columns, all, columns);
    fold_threads<Op>(values, plane, threads, columns);
    store_results<Op>(r, group, columns, values, plane);
  }
}

// `kHasShortRows`: with loops for short rows, which take more bytes.
template <class Op, bool kHasShortRows>
void reduce_part(const Reduction& r, Phase phase, int64_t begin, int64_t end) {
  if constexpr (kHasShortRows)
    if (phase == Phase::Blocks && reduce_short_rows<Op>(r, begin, end)) return;
  const int64_t threads = std::max(r.order.threads(), r.order.joining_threads(r.shape.has_rows()));
  const int64_t plane = threads * r.columns;
  const std::unique_ptr<float[]> memory(new float[static_cast<size_t>(Op::kPlanes * (kMostSums + plane))]);
  float* const values = memory.get() + Op::kPlanes * kMostSums;
  if (phase == Phase::Blocks)
    reduce_blocks<Op>(r, begin, end, memory.get(), values, plane);
  else
    combine_blocks<Op>(r, begin, end, values, plane);
}

}  // namespace hostdevice
