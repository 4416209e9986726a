#include "runtime/captured_allocations.h"

#include <c10/core/impl/alloc_cpu.h>

namespace hostdevice {

thread_local CaptureCursor t_captured;

namespace {

// The memory belongs to the graph, so nothing is freed.
void leave_in_place(void*) {}

void free_host(void* pointer) {
  c10::free_cpu(pointer);
}

}  // namespace

c10::DataPtr replay_allocation(size_t bytes, c10::DeviceIndex index) {
  const auto& entries = t_captured.replaying->entries;
  for (size_t i = t_captured.next; i < entries.size(); i++) {
    if (entries[i].bytes != bytes) continue;
    t_captured.next = i + 1;
    return {entries[i].address, entries[i].address, &leave_in_place, device(index)};
  }
  void* const host = c10::alloc_cpu(bytes);
  return {host, host, &free_host, device(index)};
}

bool is_replayed(const c10::DataPtr& pointer) {
  return pointer.get_deleter() == &leave_in_place || pointer.get_deleter() == &free_host;
}

bool is_captured_address(const void* address) {
  if (C10_LIKELY(!t_captured.replaying)) return false;
  for (const auto& entry : t_captured.replaying->entries)
    if (entry.address == address) return true;
  return false;
}

}  // namespace hostdevice
