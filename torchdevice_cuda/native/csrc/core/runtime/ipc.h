// Tensors and events that processes share, as CUDA does it.
//
// The sender's storage gets a slot in shared memory that counts who has still to let go of it. When the sender drops
// the storage while others hold it, the memory stays allocated, in limbo; it is looked at when the next one is
// dropped, when memory is short, and by collect_sent(). A receiver maps the sender's whole segment once.
//
// One lock protects what a process keeps of this; nothing else is locked while it is held.
#pragma once

#include <c10/core/Storage.h>
#include <c10/core/StorageImpl.h>

#include <atomic>
#include <memory>
#include <string>
#include <variant>

#include "runtime/streams.h"

namespace hostdevice {

// What the receiver of a storage is told, as torch.UntypedStorage._share_cuda_ lays it out. Of a storage without
// memory the strings are empty.
struct Sending {
  c10::DeviceIndex device;
  std::string handle;  // of the segment
  size_t bytes;
  size_t offset;        // in the segment
  std::string counter;  // a name of the object that has the slot
  uint64_t counter_offset;
  std::string event;  // when the contents are there
};

// CUDA's codes for a handle that cannot be opened: one of this process, none at all, one of a process that has ended.
enum Refusal : int { kOwnHandle = 201, kNoHandle = 205, kHandleOfNobody = 400 };

Sending send_storage(c10::StorageImpl* storage);
std::variant<c10::Storage, Refusal> receive_storage(const Sending& sent, bool wait_for_event);
void release_counter(const std::string& counter, uint64_t offset);
// Gives back what nobody else holds any more; whether there was something.
bool collect_sent();
// How many storages are in limbo.
extern std::atomic<size_t> g_in_limbo;

// The device that memory of another process is on, or -1.
c10::DeviceIndex device_of_received(const void* address);

// An event that others can open by its handle.
struct SharedEvent {
  std::shared_ptr<EventState> state;
  std::string handle;
};
SharedEvent make_shared_event();
std::variant<std::shared_ptr<EventState>, Refusal> open_event(const std::string& handle);

}  // namespace hostdevice
