#include "clock/workspaces.h"

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/allocator.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

std::atomic<size_t> g_blas_bytes{0}, g_blas_lt_bytes{0};

// Handles of cuBLAS: a thread has one for each device that it uses, and leaves it to another thread when it ends.
class Handles {
 public:
  int take(c10::DeviceIndex device) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto& free = free_[device];
    if (free.empty()) return made_++;
    const int handle = free.back();
    free.pop_back();
    return handle;
  }
  void give_back(c10::DeviceIndex device, int handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_[device].push_back(handle);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<c10::DeviceIndex, std::vector<int>> free_;
  int made_ = 0;
};
// Never deleted: threads may end later than the process's static objects.
Handles& handles() {
  static auto* all = new Handles;
  return *all;
}

class HandlesOfThread {
 public:
  HandlesOfThread() = default;
  ~HandlesOfThread() {
    for (const auto& [device, handle] : own_) handles().give_back(device, handle);
  }
  HandlesOfThread(const HandlesOfThread&) = delete;
  HandlesOfThread& operator=(const HandlesOfThread&) = delete;
  int find(c10::DeviceIndex device) {
    for (const auto& [other, handle] : own_)
      if (other == device) return handle;
    own_.emplace_back(device, handles().take(device));
    return own_.back().second;
  }

 private:
  std::vector<std::pair<c10::DeviceIndex, int>> own_;
};

// A larger size replaces a workspace when it is needed next. Allocating may run Python, so no lock is held meanwhile.
class Workspaces {
 public:
  using Key = std::tuple<int, c10::DeviceIndex, c10::StreamId, Blas>;

  void take(const Key& key, size_t bytes) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = all_.find(key);
      if (bytes <= (found == all_.end() ? 0 : found->second.first)) return;
    }
    // What it replaces is freed after the lock was released.
    std::pair<size_t, c10::DataPtr> made{bytes, allocate(bytes, std::get<c10::DeviceIndex>(key))};
    const std::lock_guard<std::mutex> lock(mutex_);
    std::swap(all_[key], made);
  }
  size_t count(Blas kind) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<size_t>(
        std::count_if(all_.begin(), all_.end(), [&](const auto& each) { return std::get<Blas>(each.first) == kind; }));
  }
  void clear() {
    std::map<Key, std::pair<size_t, c10::DataPtr>> freed;  // after the lock was released
    const std::lock_guard<std::mutex> lock(mutex_);
    freed.swap(all_);
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::pair<size_t, c10::DataPtr>> all_;  // with its bytes
};
Workspaces& workspaces() {
  static auto* all = new Workspaces;
  return *all;
}

}  // namespace

void set_workspaces(size_t blas_bytes, size_t blas_lt_bytes) {
  g_blas_bytes = blas_bytes;
  g_blas_lt_bytes = blas_lt_bytes;
}

void take_workspaces(Blas needed, c10::DeviceIndex device) {
  if (needed == Blas::kNone) return;
  thread_local HandlesOfThread own;
  const int handle = own.find(device);
  const auto stream = current_stream(device);
  workspaces().take({handle, device, stream, Blas::kBlas}, g_blas_bytes);
  if (needed == Blas::kBlasLt) workspaces().take({handle, device, stream, Blas::kBlasLt}, g_blas_lt_bytes);
}

size_t count_workspaces() {
  return workspaces().count(Blas::kBlas);
}
void clear_workspaces() {
  workspaces().clear();
}

}  // namespace hostdevice
