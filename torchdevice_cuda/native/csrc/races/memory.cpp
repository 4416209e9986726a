// Blocks of device memory, and what their former owners may still access.
#include <algorithm>

#include "races/detector.h"
#include "races/pages.h"

namespace hostdevice {
namespace {

// Leftovers beyond this number are dropped, the oldest first, which can only hide races.
constexpr size_t kMostLeftovers = 1024;

// The line at which the calling thread allocates or frees.
thread_local Site t_memory_site = kNoSite;

}  // namespace

const Detector::Block* Detector::block_at(uintptr_t address) const {
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return nullptr;
  --it;
  return address < it->second.end ? &it->second : nullptr;
}

void Detector::begin_memory_call() {
  t_memory_site = find_site();
}

void Detector::allocate(const ObservedBlock& b) {
  const Lock lock(mutex_);
  const auto at = reinterpret_cast<uintptr_t>(b.at);
  blocks_[at] = {at, at + b.bytes, &stream_state(b.device, b.stream), b.pool, ++memory_calls_, t_memory_site};
}

void Detector::free(const ObservedBlock& b) {
  const Lock lock(mutex_);
  const auto at = reinterpret_cast<uintptr_t>(b.at);
  const auto found = blocks_.find(at);
  const auto& stream = stream_state(b.device, b.stream);
  const Block block = found == blocks_.end() ? Block{at, at + b.bytes, &stream, b.pool, 0, kNoSite} : found->second;
  memory_calls_++;
  free_in(main_, b, block);
  if (Graph* const graph = find_graph(stream.capture.load())) free_in(graph->order, b, block);
  if (found != blocks_.end()) blocks_.erase(found);
}

void Detector::free_in(Order& order, const ObservedBlock& b, const Block& block) {
  const Clock& next = order.clocks.next_of(order.clocks.find_actor(*block.stream));
  order.device.each(block.begin, block.end, [&](const Access& access) {
    if (next.includes(access.epoch)) return;
    const auto& user = *access.info->stream;
    // Memory is not reused before the streams of record_stream() have reached this point, nor while a collective uses
    // it.
    if (is_collective_stream(user.id)) return;
    if (user.device == b.device && std::find(b.used_by.begin(), b.used_by.end(), user.id) != b.used_by.end()) return;
    if (order.leftovers.size() >= kMostLeftovers) order.leftovers.erase(order.leftovers.begin());
    order.leftovers.push_back({access, block, memory_calls_, t_memory_site});
  });
  order.device.erase(block.begin, block.end);
}

void Detector::unmap(char* at, size_t bytes) {
  const Lock lock(mutex_);
  const auto begin = reinterpret_cast<uintptr_t>(at), end = begin + bytes;
  main_.device.erase(begin, end);
  auto& leftovers = main_.leftovers;
  const auto is_inside = [&](const Leftover& left) { return left.block.begin >= begin && left.block.begin < end; };
  leftovers.erase(std::remove_if(leftovers.begin(), leftovers.end(), is_inside), leftovers.end());
}

void Detector::free_pinned(char* at, size_t bytes) {
  const Lock lock(mutex_);
  const auto begin = reinterpret_cast<uintptr_t>(at);
  main_.pinned.erase(begin, begin + bytes);
  unprotect_pages(begin, begin + bytes);
}

}  // namespace hostdevice
