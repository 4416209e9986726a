// The orders in which CUDA's three kernels of scans combine elements, over float32. Each combination is rounded to the
// element type, as on the GPU.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

namespace hostdevice {

// ---- rounding -----------------------------------------------------------------------------------------------------

struct KeepFloat {
  static float round(float x) {
    return x;
  }
};
// Round to the nearest even of the values with `kDropped` fewer bits.
template <int kDropped>
inline float round_bits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  bits += (uint32_t{1} << (kDropped - 1)) - 1 + (bits >> kDropped & 1);
  bits &= ~((uint32_t{1} << kDropped) - 1);
  float rounded;
  std::memcpy(&rounded, &bits, sizeof rounded);
  return x != x ? x : rounded;
}
struct RoundToBfloat16 {
  static float round(float x) {
    return round_bits<16>(x);
  }
};
struct RoundToHalf {
  static float round(float x) {
    constexpr float kLeastNormal = 0x1p-14F, kOverflow = 65520.0F, kInfinity = __builtin_inff();
    const float size = __builtin_fabsf(x);
    // Numbers of [0.5, 1) have the spacing of float16's subnormal numbers.
    const float subnormal = __builtin_copysignf((size + 0.5F) - 0.5F, x);
    const float normal = size >= kOverflow ? __builtin_copysignf(kInfinity, x) : round_bits<13>(x);
    return size < kLeastNormal ? subnormal : normal;
  }
};

// ---- one row after another ----------------------------------------------------------------------------------------

// Scan along the first of two dimensions: one thread of the GPU for each column.
template <class Op>
void scan_columns(float* data, int64_t length, int64_t columns) {
  for (int64_t j = 0; j < columns; j++) data[j] = Op::combine(Op::kNeutral, data[j]);
  for (int64_t i = 1; i < length; i++) {
    const float* before = data + (i - 1) * columns;
    float* row = data + i * columns;
    for (int64_t j = 0; j < columns; j++) row[j] = Op::combine(before[j], row[j]);
  }
}

// ---- Sklansky's network -------------------------------------------------------------------------------------------

// Return how many threads CUDA gives each row, as a power of two: about 512 threads scan several rows.
inline int find_row_threads(int64_t rows, int64_t length) {
  const auto ceil_log2 = [](int64_t n) {
    int power = 0;
    while ((int64_t{1} << power) < n) power++;
    return power;
  };
  return std::min(std::max((9 + ceil_log2(length) - ceil_log2(rows)) / 2, 4), 9);
}

// Scan a row in blocks of two elements per thread.
template <class Op>
void scan_row(float* row, int64_t length, int log_threads) {
  const int64_t threads = int64_t{1} << log_threads;
  std::array<float, 1024> block;
  float total = Op::kNeutral;
  for (int64_t begin = 0; begin < length; begin += 2 * threads) {
    const int64_t count = std::min(2 * threads, length - begin);
    std::copy(row + begin, row + begin + count, block.begin());
    std::fill(block.begin() + count, block.begin() + 2 * threads, Op::kNeutral);
    block[0] = Op::combine(total, block[0]);
    for (int64_t half = 1; half < 2 * threads; half *= 2)
      for (int64_t first = half; first < count; first += 2 * half) {
        const float left = block[static_cast<size_t>(first - 1)];
        for (int64_t i = first; i < first + half; i++) {
          float& element = block[static_cast<size_t>(i)];
          element = Op::combine(left, element);
        }
      }
    std::copy(block.begin(), block.begin() + count, row + begin);
    total = block[static_cast<size_t>(2 * threads - 1)];
  }
}

// ---- tiles --------------------------------------------------------------------------------------------------------

// CUB's scan of a whole tensor: a block of 128 threads scans each tile. Tiles run in order; on the GPU, the prefix of
// the fourth tile and of later ones depends on timing.
constexpr int kTileThreads = 128, kWarp = 32;

template <class Op>
void scan_tile(float* tile, int64_t count, int items, float& prefix, bool is_first) {
  std::array<float, kTileThreads> sums, before;
  const auto threads = static_cast<int>((count + items - 1) / items);
  std::fill(sums.begin(), sums.end(), Op::kNeutral);
  for (int t = 0; t < threads; t++) {
    const float* from = tile + static_cast<int64_t>(t) * items;
    const int64_t own = std::min<int64_t>(items, count - static_cast<int64_t>(t) * items);
    float sum = from[0];
    for (int64_t i = 1; i < own; i++) sum = Op::combine(sum, from[i]);
    sums[static_cast<size_t>(t)] = sum;
  }
  float of_warps = 0;
  for (int warp = 0; warp < kTileThreads / kWarp; warp++) {
    float* lanes = sums.data() + warp * kWarp;
    for (int step = 1; step < kWarp; step *= 2)
      for (int lane = kWarp - 1; lane >= step; lane--) lanes[lane] = Op::combine(lanes[lane - step], lanes[lane]);
    float* own = before.data() + warp * kWarp;
    for (int lane = 1; lane < kWarp; lane++)
      own[lane] = warp ? Op::combine(of_warps, lanes[lane - 1]) : lanes[lane - 1];
    own[0] = of_warps;
    of_warps = warp ? Op::combine(of_warps, lanes[kWarp - 1]) : lanes[kWarp - 1];
  }
  if (!is_first) {
    for (int t = 1; t < threads; t++)
      before[static_cast<size_t>(t)] = Op::combine(prefix, before[static_cast<size_t>(t)]);
    before[0] = prefix;
  }
  for (int t = 0; t < threads; t++) {
    float* from = tile + static_cast<int64_t>(t) * items;
    const int64_t own = std::min<int64_t>(items, count - static_cast<int64_t>(t) * items);
    float sum = t == 0 && is_first ? from[0] : Op::combine(before[static_cast<size_t>(t)], from[0]);
    from[0] = sum;
    for (int64_t i = 1; i < own; i++) from[i] = sum = Op::combine(sum, from[i]);
  }
  prefix = is_first ? of_warps : Op::combine(prefix, of_warps);
}

template <class Op>
void scan_tiles(float* data, int64_t length, int items) {
  const int64_t tile = static_cast<int64_t>(items) * kTileThreads;
  float prefix = 0;
  for (int64_t begin = 0; begin < length; begin += tile)
    scan_tile<Op>(data + begin, std::min(tile, length - begin), items, prefix, begin == 0);
}

}  // namespace hostdevice
