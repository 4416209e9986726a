// Tensors and events that processes share, like CUDA IPC.
//
// The sender's storage gets a slot in shared memory, which counts the processes that still have to release it. If the
// sender frees the storage while others hold it, the memory stays allocated, in limbo. It is checked when the next sent
// storage is freed, when memory is short, and by collect_sent(). A receiver maps the sender's whole segment once.
//
// One lock protects this process's state; no other lock is taken while it is held.
#pragma once

#include <c10/core/Storage.h>
#include <c10/core/StorageImpl.h>

#include <atomic>
#include <memory>
#include <string>
#include <variant>

#include "runtime/streams.h"

namespace hostdevice {

// The fields of torch.UntypedStorage._share_cuda_, which the receiver gets. The strings are empty for a storage without
// memory.
struct SharedStorage {
  c10::DeviceIndex device;
  std::string handle;  // of the segment
  size_t bytes;
  size_t offset;        // in the segment
  std::string counter;  // name of the shared memory that holds the slot
  uint64_t counter_offset;
  std::string event;  // recorded when the contents are ready
};

// CUDA's error codes for a handle that cannot be opened: a handle of this process, an invalid handle, a handle of a
// process that has ended.
enum Refusal : int { kOwnHandle = 201, kNoHandle = 205, kExpiredHandle = 400 };

SharedStorage send_storage(c10::StorageImpl* storage);
std::variant<c10::Storage, Refusal> receive_storage(const SharedStorage& sent, bool wait_for_event);
void release_counter(const std::string& counter, uint64_t offset);
// Free the memory that no other process holds any more; return whether there was any.
bool collect_sent();
// The number of storages in limbo.
extern std::atomic<size_t> g_in_limbo;

// Return the device of memory that was received from another process, or -1.
c10::DeviceIndex device_of_received(const void* address);

// An event that other processes can open by its handle.
struct SharedEvent {
  std::shared_ptr<EventState> state;
  std::string handle;
};
SharedEvent make_shared_event();
std::variant<std::shared_ptr<EventState>, Refusal> open_event(const std::string& handle);

}  // namespace hostdevice
