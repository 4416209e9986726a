#include "operators/reduction_order.h"

#include <algorithm>

namespace hostdevice {
namespace {

constexpr int64_t kMostThreads = 512, kWarp = 32, kShortestVectors = 128, kWidestLoad = 4;
constexpr int64_t kFewValues = 16, kManyValues = 256;

int64_t find_last_power(int64_t n) {
  int64_t power = 1;
  while (power * 2 <= n) power *= 2;
  return power;
}
int64_t divide_up(int64_t n, int64_t by) {
  return (n + by - 1) / by;
}

}  // namespace

ReductionOrder find_order(const ReducedShape& shape, int64_t accumulators, const Multiprocessors& gpu) {
  ReductionOrder order;
  const bool has_rows = shape.has_rows();
  int64_t outputs_of_thread = 1;
  int64_t wide = has_rows ? shape.length : shape.outputs(), high = has_rows ? shape.outputs() : shape.length;
  if (!has_rows) {
    outputs_of_thread = kWidestLoad;
    while (shape.after % outputs_of_thread || shape.offset % outputs_of_thread) outputs_of_thread /= 2;
    wide /= outputs_of_thread;
  } else if (wide >= kShortestVectors) {
    order.loads_vectors = true;
    wide /= accumulators;
  }
  const int64_t most = kMostThreads / outputs_of_thread;
  wide = find_last_power(std::min(wide, most));
  high = find_last_power(std::min(high, most));
  order.block_width = std::min(wide, kWarp);
  order.block_height = std::min(high, most / order.block_width);
  order.block_width = std::min(wide, most / order.block_height);

  int64_t outputs_of_block = has_rows ? 1 : order.block_width;
  if (has_rows) order.lanes = order.block_width;
  const auto count_values = [&] { return divide_up(shape.length, order.threads() * order.blocks); };
  if (count_values() >= std::min(order.block_height * kFewValues, kManyValues))
    order.warps = order.block_height;
  else
    outputs_of_block *= order.block_height;
  const bool splits = order.warps > 1 || order.block_height == 1;
  const int64_t target = gpu.count * (gpu.threads / (order.block_width * order.block_height));
  const int64_t grid = divide_up(shape.outputs() / outputs_of_thread, outputs_of_block);
  const int64_t values = count_values();
  if (splits && values >= kManyValues && grid <= target)
    order.blocks =
        std::max(std::min(divide_up(target, grid), divide_up(values, kFewValues)), divide_up(values, kManyValues));
  return order;
}

}  // namespace hostdevice
