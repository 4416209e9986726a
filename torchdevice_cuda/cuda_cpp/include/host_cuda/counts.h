// What a sample of a launch's blocks reads, writes and computes, from which a GPU's clock has the time of the launch.
// In builds that do not count there is nothing of it.
#pragma once

#include <cstddef>
#include <cstdint>

#ifndef HOST_CUDA_COUNTED
#pragma GCC visibility push(hidden)
namespace host_cuda {

struct Counts;
struct Allocations {
  void forget() {}
};
struct Sample {
  void begin(uint64_t, uint64_t) {}
  Counts* find(uint64_t) {
    return nullptr;
  }
  void end() {}
  static constexpr bool runs() {
    return true;
  }
};
struct Timed {
  Timed(const char*, void*, const void* const*, size_t) {}
  void end() {}
};

}  // namespace host_cuda
#pragma GCC visibility pop
#else

#include <dlfcn.h>

#include <utility>
#include <vector>

#include "../../../native/csrc/clock/block_counts.h"
#include "host_cuda/kernel_abi.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

inline const KernelTimes* kernel_times() {
  using Get = const KernelTimes* (*)();
  const auto get = reinterpret_cast<Get>(dlsym(RTLD_DEFAULT, "torchdevice_kernel_times"));
  return get ? get() : nullptr;
}

// Finds the allocations of a worker's block; looks each page up once in a while.
class Allocations {
 public:
  Counts::Allocation find(const char* p) {
    if (pages_.empty()) pages_.resize(kPages);
    const auto number = reinterpret_cast<uintptr_t>(p) / kPage;
    Page& page = pages_[number % kPages];
    if (page.number == number) return page.allocation;
    page = {number, {}};
    const KernelAbi* const device = kernel_abi();
    auto& [begin, bytes] = page.allocation;
    if (device && device->find_memory(p, &begin, &bytes) != Memory::kDevice) begin = nullptr;
    return page.allocation;
  }
  void forget() {
    pages_.clear();
  }

 private:
  static constexpr uintptr_t kPage = 512;  // the device's allocations are aligned to it
  static constexpr size_t kPages = 256;
  struct Page {
    uintptr_t number = 0;
    Counts::Allocation allocation;
  };
  std::vector<Page> pages_;
};

struct Sample {
  BlockSample blocks;

  void begin(uint64_t count, uint64_t threads) {
    blocks.clear();
    if (kernel_times()) blocks.begin(count, threads);
  }
  Counts* find(uint64_t block) {
    return blocks.find(block);
  }
  // Tell the clock.
  void end() {
    const KernelTimes* const times = kernel_times();
    if (times && !blocks.is_empty()) times->count(blocks.sum());
    blocks.clear();
  }
  static bool runs() {
    const KernelTimes* const times = kernel_times();
    return !times || times->runs();
  }
};

// A launch, on the clock. Its end may throw what Python makes of a warning.
struct Timed {
  const KernelTimes* times = kernel_times();
  Timed(const char* name, void* stream, const void* const* pointers, size_t count) {
    if (times) times->begin(name, stream, pointers, count);
  }
  ~Timed() {
    if (times) times->end(false);
  }
  void end() {
    if (const KernelTimes* const before = std::exchange(times, nullptr)) before->end(true);
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;
};

}  // namespace host_cuda
#pragma GCC visibility pop
#endif
