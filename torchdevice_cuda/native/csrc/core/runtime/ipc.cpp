#include "runtime/ipc.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/allocator.h"
#include "runtime/device_memory.h"
#include "runtime/ipc_handles.h"
#include "runtime/shared_memory.h"

namespace hostdevice {

std::atomic<size_t> g_in_limbo{0};

namespace {

// The state that processes share for each storage or event that was sent. Shared memory starts zeroed.
struct Slot {
  std::atomic<int64_t> holders;      // processes that still have to release it
  std::atomic<uint64_t> generation;  // distinguishes successive uses of the slot
  EventState event;
};
static_assert(std::atomic<int64_t>::is_always_lock_free);

// As many slots as CUDA has in a file.
constexpr uint64_t kSlots = 10000;
constexpr size_t kPages = 64 * 1024;  // a multiple of every system's page size
constexpr size_t kSlotBytes = (kSlots * sizeof(Slot) + sizeof(uint64_t) + kPages - 1) / kPages * kPages;
// Marks memory that holds slots, in its last word: a handle may name a tensor's memory instead.
constexpr uint64_t kSlotMark = 0x73746f6c53636474;
// The prefix of PyTorch's CUDA handles: a version, and 'c' for a whole segment.
constexpr char kSegmentHandle[] = {3, 'c'};
constexpr size_t kWarnInLimbo = 1000;

struct EventHandle {
  SharedRange slots;
  uint64_t index;
  uint64_t generation;
};
static_assert(sizeof(EventHandle) <= kHandleBytes && sizeof(SharedRange) <= kHandleBytes);

// ---- slots of this process ----------------------------------------------------------------------------------------

struct SlotFile {
  SharedRange range;
  Slot* slots;
  uint64_t used = 0;
};

struct SlotRef {
  SlotFile* file = nullptr;
  uint64_t index = 0;
  Slot& operator*() const {
    return file->slots[index];
  }
};

// Kept until no other process holds it: memory that was sent, or an event (which has no memory). Sending a storage
// again adds a slot.
struct Sent {
  c10::DataPtr memory;
  std::vector<SlotRef> slots;
};

struct SentRegistry {
  std::mutex mutex;
  std::vector<SlotFile*> files;
  std::vector<SlotRef> free;
  std::vector<std::unique_ptr<Sent>> limbo;
  size_t sent = 0;  // slots of memory; events are not counted, because losing them does no harm
  bool warned = false;
};

SentRegistry& sent_registry() {
  static auto* one = new SentRegistry;  // leaked: tensors outlive static destruction
  return *one;
}

void warn_at_exit() {
  if (g_bad_fork) return;
  collect_sent();
  const std::lock_guard<std::mutex> lock(sent_registry().mutex);
  if (sent_registry().sent > 0)
    LOG(WARNING) << "Producer process has been terminated before all shared CUDA tensors released. See Note [Sharing "
                    "CUDA tensors]";
}

SlotRef take_slot(bool of_memory) {
  auto& b = sent_registry();
  const std::lock_guard<std::mutex> lock(b.mutex);
  SlotRef taken;
  if (!b.free.empty()) {
    taken = b.free.back();
    b.free.pop_back();
  } else {
    if (b.files.empty() || b.files.back()->used == kSlots) {
      const auto range = create_shared_range(kSlotBytes);
      char* const at = range ? map_shared_range(*range) : nullptr;
      if (!at) throw_no_shared_memory();
      std::memcpy(at + kSlotBytes - sizeof kSlotMark, &kSlotMark, sizeof kSlotMark);
      if (b.files.empty()) std::atexit(&warn_at_exit);
      b.files.push_back(new SlotFile{*range, reinterpret_cast<Slot*>(at)});
    }
    taken = {b.files.back(), b.files.back()->used++};
  }
  if (of_memory) b.sent++;
  (*taken).generation.fetch_add(1);
  (*taken).event.time_ns.store(-1);
  return taken;
}

void return_slots(const std::vector<SlotRef>& slots, bool of_memory) {
  auto& b = sent_registry();
  const std::lock_guard<std::mutex> lock(b.mutex);
  for (const auto& slot : slots) {
    (*slot).generation.fetch_add(1);  // a late receiver finds another generation
    b.free.push_back(slot);
  }
  if (of_memory) b.sent -= slots.size();
}

bool is_held(const Sent& sent) {
  for (const auto& slot : sent.slots)
    if ((*slot).holders.load(std::memory_order_acquire) > 0) return true;
  return false;
}

void release_sent(std::unique_ptr<Sent> sent) {
  return_slots(sent->slots, sent->memory.get() != nullptr);
  sent.reset();  // called without our lock, because it takes the device's
}

void drop_sent(std::unique_ptr<Sent> sent) {
  // A forked child drops copies of the parent's objects: the parent's statistics stay as they are.
  if (g_bad_fork) {
    (void)sent.release();
    return;
  }
  if (!is_held(*sent)) {
    release_sent(std::move(sent));
  } else {
    auto& b = sent_registry();
    const std::lock_guard<std::mutex> lock(b.mutex);
    if (b.limbo.size() > kWarnInLimbo && !b.warned) {
      LOG(WARNING) << "Producer process tried to deallocate over " << kWarnInLimbo
                   << " memory blocks referred by consumer processes. Deallocation might be significantly slowed down. "
                      "We assume it will never going to be the case, but if it is, please file but to "
                      "https://github.com/pytorch/pytorch";
      b.warned = true;
    }
    b.limbo.push_back(std::move(sent));
    g_in_limbo.store(b.limbo.size());
  }
  collect_sent();
}

void delete_sent(void* context) {
  drop_sent(std::unique_ptr<Sent>(static_cast<Sent*>(context)));
}

// ---- received memory ----------------------------------------------------------------------------------------------

// Memory of another process, mapped once however often it is received.
struct Mapping {
  SharedRange range;
  char* base;
  c10::DeviceIndex device;
  Mapping(const SharedRange& p, char* at, c10::DeviceIndex index) : range(p), base(at), device(index) {}
  ~Mapping() {
    unmap_shared_range(range, base);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
};

struct Mappings {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Mapping>> all;
};

Mappings& mappings() {
  static auto* one = new Mappings;
  return *one;
}

Refusal refusal_of(const SharedRange& range) {
  return range.process == getpid() ? kOwnHandle : kExpiredHandle;
}

std::shared_ptr<Mapping> mapping_of(const SharedRange& range, c10::DeviceIndex device) {
  auto& m = mappings();
  const std::lock_guard<std::mutex> lock(m.mutex);
  const auto key = pack(range);
  const auto it = m.all.find(key);
  if (it != m.all.end())
    if (auto known = it->second.lock()) return known;
  // As on CUDA, a process cannot open its own handle.
  char* const at = range.process == getpid() ? nullptr : map_shared_range(range);
  if (!at) return nullptr;
  for (auto old = m.all.begin(); old != m.all.end();) old = old->second.expired() ? m.all.erase(old) : std::next(old);
  auto made = std::make_shared<Mapping>(range, at, device);
  m.all[key] = made;
  return made;
}

// Map the slots of another process; return null if that memory holds none.
std::shared_ptr<Mapping> slots_of(const SharedRange& range, c10::DeviceIndex device) {
  auto found = mapping_of(range, device);
  if (found && std::memcmp(found->base + kSlotBytes - sizeof kSlotMark, &kSlotMark, sizeof kSlotMark) != 0)
    return nullptr;
  return found;
}

Slot& slot_of(const std::shared_ptr<Mapping>& mapping, uint64_t index) {
  return reinterpret_cast<Slot*>(mapping->base)[index];
}

struct Received {
  std::shared_ptr<Mapping> memory;
  std::shared_ptr<Mapping> slots;  // null if the sender's slots are gone
  uint64_t index;
};

void delete_received(void* context) {
  const std::unique_ptr<Received> received(static_cast<Received*>(context));
  // A forked child drops copies of memory that its parent still holds.
  if (received->slots && !g_bad_fork)
    slot_of(received->slots, received->index).holders.fetch_sub(1, std::memory_order_acq_rel);
}

}  // namespace

bool collect_sent() {
  if (g_in_limbo.load(std::memory_order_relaxed) == 0) return false;
  std::vector<std::unique_ptr<Sent>> done;
  {
    auto& b = sent_registry();
    const std::lock_guard<std::mutex> lock(b.mutex);
    std::vector<std::unique_ptr<Sent>> kept;
    for (auto& sent : b.limbo) (is_held(*sent) ? kept : done).push_back(std::move(sent));
    b.limbo = std::move(kept);
    g_in_limbo.store(b.limbo.size());
  }
  const bool any = !done.empty();
  for (auto& sent : done) release_sent(std::move(sent));
  return any;
}

SharedStorage send_storage(c10::StorageImpl* storage) {
  TORCH_CHECK(storage->device_type() == kType, "_share_cuda_: only available on CUDA");
  TORCH_CHECK(
      !storage->received_cuda(),
      "Attempted to send CUDA tensor received from another process; this is not currently supported. Consider cloning "
      "before sending.");
  check_fork();
  const auto index = storage->device().index();
  SharedStorage out{index, {}, storage->nbytes(), 0, {}, 0, {}};
  if (!storage->data()) return out;
  auto* const data = static_cast<char*>(storage->mutable_data());
  const auto home = device_of_address(data);
  const auto block = home < 0 ? std::nullopt : memory_of(home).share(data);
  TORCH_CHECK(block, "invalid device pointer: ", static_cast<void*>(data));

  const SlotRef slot = take_slot(true);
  (*slot).holders.store(1);
  event_record((*slot).event, stream_state(index, current_stream(index)));
  if (storage->data_ptr().get_deleter() == &delete_sent) {
    auto* const sent = static_cast<Sent*>(storage->data_ptr().get_context());
    std::vector<SlotRef> done;
    {
      const std::lock_guard<std::mutex> lock(sent_registry().mutex);
      auto& all = sent->slots;
      for (size_t i = all.size(); i-- > 0;) {
        if ((*all[i]).holders.load(std::memory_order_acquire) > 0) continue;
        done.push_back(all[i]);
        all[i] = all.back();
        all.pop_back();
      }
      all.push_back(slot);
    }
    return_slots(done, true);
  } else {
    auto sent = std::make_unique<Sent>();
    auto* const context = sent.get();
    context->slots.push_back(slot);
    context->memory = storage->set_data_ptr(c10::DataPtr(data, sent.release(), &delete_sent, storage->device()));
  }
  out.handle = pack(block->segment, std::string(kSegmentHandle, sizeof kSegmentHandle));
  out.offset = block->offset;
  out.counter = name_of(slot.file->range);
  out.counter_offset = slot.index;
  out.event = pack(EventHandle{slot.file->range, slot.index, (*slot).generation.load()});
  return out;
}

std::variant<c10::Storage, Refusal> receive_storage(const SharedStorage& sent, bool wait_for_event) {
  mark_used();
  check_index(sent.device);
  mark_context(sent.device);
  if (wait_for_event) {
    const auto event = open_event(sent.event);
    if (const auto* refusal = std::get_if<Refusal>(&event)) return *refusal;
    event_block(*std::get<0>(event), stream_state(sent.device, current_stream(sent.device)));
  }
  constexpr size_t kStart = sizeof kSegmentHandle;
  if (sent.handle.size() != kStart + kHandleBytes) return kExpiredHandle;
  TORCH_CHECK(
      static_cast<unsigned char>(sent.handle[0]) <= static_cast<unsigned char>(kSegmentHandle[0]),
      "received sharable handle from a future version of torch that this version does not know how to handle");
  if (sent.handle[1] != kSegmentHandle[1]) return kExpiredHandle;
  const auto segment = unpack<SharedRange>(sent.handle, kStart);
  auto memory = mapping_of(segment, sent.device);
  if (!memory || sent.offset > segment.size || sent.bytes > segment.size - sent.offset) return refusal_of(segment);
  const auto slots = parse_range_name(sent.counter, kSlotBytes);
  auto* const received = new Received{memory, slots ? slots_of(*slots, sent.device) : nullptr, sent.counter_offset};
  if (sent.counter_offset >= kSlots) received->slots.reset();
  c10::DataPtr data(memory->base + sent.offset, received, &delete_received, device(sent.device));
  auto made = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), sent.bytes, std::move(data), nullptr, false);
  made->set_received_cuda(true);
  return c10::Storage(std::move(made));
}

void release_counter(const std::string& counter, uint64_t offset) {
  const auto range = parse_range_name(counter, kSlotBytes);
  const auto slots = range && offset < kSlots ? slots_of(*range, 0) : nullptr;
  // There is nothing to do if the sender has ended.
  if (slots) slot_of(slots, offset).holders.fetch_sub(1, std::memory_order_acq_rel);
}

c10::DeviceIndex device_of_received(const void* address) {
  auto& m = mappings();
  const std::lock_guard<std::mutex> lock(m.mutex);
  const auto* const p = static_cast<const char*>(address);
  for (const auto& entry : m.all)
    if (const auto known = entry.second.lock())
      if (p >= known->base && p < known->base + known->range.size) return known->device;
  return -1;
}

SharedEvent make_shared_event() {
  const SlotRef slot = take_slot(false);
  auto sent = std::make_unique<Sent>();
  sent->slots.push_back(slot);
  const std::shared_ptr<Sent> owner(sent.release(), &delete_sent);
  return {
      std::shared_ptr<EventState>(owner, &(*slot).event),
      pack(EventHandle{slot.file->range, slot.index, (*slot).generation.load()})};
}

std::variant<std::shared_ptr<EventState>, Refusal> open_event(const std::string& handle) {
  if (handle.size() != kHandleBytes) return kNoHandle;
  const auto named = unpack<EventHandle>(handle);
  if (named.index >= kSlots || named.slots.size != kSlotBytes) return kNoHandle;
  const auto slots = slots_of(named.slots, 0);
  if (!slots) return refusal_of(named.slots);
  auto& slot = slot_of(slots, named.index);
  slot.holders.fetch_add(1, std::memory_order_acq_rel);
  const std::shared_ptr<Slot> held(&slot, [slots](Slot* s) {
    if (!g_bad_fork) s->holders.fetch_sub(1, std::memory_order_acq_rel);
  });
  if (slot.generation.load() != named.generation) return kExpiredHandle;
  return std::shared_ptr<EventState>(held, &slot.event);
}

}  // namespace hostdevice
