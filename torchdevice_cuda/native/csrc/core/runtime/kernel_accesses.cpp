#include "runtime/kernel_accesses.h"

#include <algorithm>
#include <utility>

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
  const auto earlier = std::exchange(memory_, {});
  const auto find = [](const std::vector<Memory>& all, const char* at) {
    return std::find_if(all.begin(), all.end(), [&](const Memory& known) { return known.at == at; });
  };
  for (const void* pointer : pointers) {
    char* const at = static_cast<char*>(const_cast<void*>(pointer));
    if (find(memory_, at) != memory_.end()) continue;
    const auto block = block_of_address(pointer);
    if (!block) continue;
    const char* const end = static_cast<const char*>(block->first) + block->second;
    if (at >= end) continue;
    const size_t bytes = std::min(kMostBytes, static_cast<size_t>(end - at));
    const auto last = find(earlier, at);
    const bool is_same = last != earlier.end() && last->bytes == bytes;
    memory_.push_back({at, bytes, {at, at + bytes}, is_same ? last->first : 0, is_same ? last->end : 0, 0});
  }
}

std::vector<ObservedAccess> KernelAccesses::end() {
  std::vector<ObservedAccess> accesses, reads;
  bool begins_elsewhere = false;
  for (auto& m : memory_) {
    const auto first = static_cast<size_t>(std::mismatch(m.at, m.at + m.bytes, m.before.begin()).first - m.at);
    if (first != m.bytes) {
      m.first = first;
      m.end = m.bytes;
      while (m.at[m.end - 1] == m.before[m.end - 1]) m.end--;
    }
    m.before = {};
    const bool writes = m.first != m.end;
    m.size = static_cast<int64_t>(writes ? m.end - m.first : m.bytes);
    const c10::IntArrayRef size(&m.size, 1);
    if (writes)
      accesses.push_back({m.at + m.first, m.end - m.first, c10::ScalarType::Byte, size, true});
    else
      reads.push_back({m.at, 1, c10::ScalarType::Byte, size, false});
    begins_elsewhere = begins_elsewhere || (writes && m.first >= kLargestElement);
  }
  if (!begins_elsewhere) accesses.insert(accesses.end(), reads.begin(), reads.end());
  return accesses;
}

void KernelAccesses::report(const StreamState& stream, const char* name) {
  const auto accesses = end();
  if (!accesses.empty()) observe([&](StreamObserver& o) { o.run_work(stream, name, accesses); });
}

}  // namespace hostdevice
