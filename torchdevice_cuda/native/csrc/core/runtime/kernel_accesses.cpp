#include "runtime/kernel_accesses.h"

#include <algorithm>

#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/observer.h"

namespace hostdevice {
namespace {

// Larger memory is compared in part.
constexpr size_t kMostBytes = size_t{64} << 20;
// The first byte of an element may not change.
constexpr size_t kLargestElement = 16;

}  // namespace

std::atomic<bool> g_watches_kernels{false};

void KernelAccesses::begin(const std::vector<const void*>& pointers) {
  for (const void* pointer : pointers) {
    char* const at = static_cast<char*>(const_cast<void*>(pointer));
    const auto is_known = [&](const Memory& known) { return known.at == at; };
    if (std::any_of(memory_.begin(), memory_.end(), is_known)) continue;
    const auto block = block_of_address(pointer);
    if (!block) continue;
    const char* const end = static_cast<const char*>(block->first) + block->second;
    if (at >= end) continue;
    const size_t bytes = std::min(kMostBytes, static_cast<size_t>(end - at));
    memory_.push_back({at, bytes, {at, at + bytes}});
  }
}

void KernelAccesses::report(const StreamState& stream, const char* name) const {
  std::vector<int64_t> sizes;
  sizes.reserve(memory_.size());
  std::vector<ObservedAccess> writes, reads;
  bool begins_elsewhere = false;
  for (const auto& [at, bytes, before] : memory_) {
    const auto first = static_cast<size_t>(std::mismatch(at, at + bytes, before.begin()).first - at);
    size_t end = bytes;
    while (end > first && at[end - 1] == before[end - 1]) end--;
    sizes.push_back(static_cast<int64_t>(first == bytes ? bytes : end - first));
    const c10::IntArrayRef size(&sizes.back(), 1);
    if (first == bytes) {
      reads.push_back({at, 1, c10::ScalarType::Byte, size, false});
    } else {
      writes.push_back({at + first, end - first, c10::ScalarType::Byte, size, true});
      begins_elsewhere = begins_elsewhere || first >= kLargestElement;
    }
  }
  if (!begins_elsewhere) writes.insert(writes.end(), reads.begin(), reads.end());
  if (!writes.empty()) observe([&](StreamObserver& o) { o.run_work(stream, name, writes); });
}

}  // namespace hostdevice
