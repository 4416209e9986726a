// What some blocks of a launch read, write and compute, and what the launch does then. Libraries of CUDA C++ and of
// Triton include this file, so it uses nothing of PyTorch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "kernel_times.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

// What one block uses. A GPU moves 32 bytes at a time, and what a block has moved is in its caches.
struct Counts {
  struct Allocation {
    const char* begin = nullptr;  // null: not the device's memory
    size_t bytes = 0;
  };
  struct Used {
    double bytes = 0;
    std::map<const char*, size_t> allocations;
  };
  Used read, written;
  double operations = 0, products = 0;

  // `find` returns the allocation of an address.
  template <class Find>
  void add(const void* p, size_t bytes, bool is_write, Find find) {
    const auto at = reinterpret_cast<uintptr_t>(p);
    for (auto sector = at / kSector; sector <= (at + bytes - 1) / kSector; ++sector) {
      const uint64_t key = sector * 2 + is_write;
      if (key == last_) {
        if (!is_last_known_) insert(key, true);
        is_last_known_ = true;
        continue;
      }
      last_ = key;
      is_last_known_ = true;
      const Allocation found = find(reinterpret_cast<const char*>(std::max(sector * kSector, at)));
      if (!found.begin || !insert(key, bytes > 2 * kLane)) continue;
      is_last_known_ = false;
      Used& used = is_write ? written : read;
      used.bytes += kSector;
      used.allocations[found.begin] = found.bytes;
    }
  }
  // Bytes of the sectors that are read for one access, without the other half of their 64 bytes.
  double count_scattered() const {
    double bytes = 0;
    for (const uint64_t entry : keys_) {
      const bool is_write = entry & 2, is_used_again = entry & 1;
      if (entry && !is_write && !is_used_again && !keys_[find_slot(entry >> 1 ^ 2)]) bytes += kSector;
    }
    return bytes;
  }

 private:
  static constexpr uintptr_t kSector = 32;
  static constexpr size_t kLane = 4;
  static constexpr size_t kMostKeys = size_t{1} << 22;

  // Where a key is, or belongs.
  size_t find_slot(uint64_t key) const {
    size_t slot = (key * 0x9e3779b97f4a7c15u >> 20) % keys_.size();
    while (keys_[slot] && keys_[slot] >> 1 != key) slot = (slot + 1) % keys_.size();
    return slot;
  }
  // Note a use of a key; return whether it is the first. Of a block that uses very much, every use counts.
  bool insert(uint64_t key, bool is_used_again) {
    if (2 * (size_ + 1) > keys_.size()) {
      if (size_ >= kMostKeys) return true;
      std::vector<uint64_t> before(std::max<size_t>(1024, 2 * keys_.size()));
      before.swap(keys_);
      for (const uint64_t each : before)
        if (each) keys_[find_slot(each >> 1)] = each;
    }
    uint64_t& entry = keys_[find_slot(key)];
    const bool is_new = !entry;
    entry = key << 1 | (is_used_again || !is_new);
    size_ += is_new;
    return is_new;
  }

  uint64_t last_ = 0;
  bool is_last_known_ = false;  // to have been used again, or not to count
  std::vector<uint64_t> keys_;  // twice the key, and one for those that were used again
  size_t size_ = 0;
};

// Some blocks of a launch: the first and the last, which often do less, count once, those between stand for the rest.
class BlockSample {
 public:
  void begin(uint64_t blocks, uint64_t threads = 0) {
    counts_.clear();
    blocks_ = blocks;
    warps_ = static_cast<double>(blocks) * static_cast<double>((threads + 31) / 32);
    for (uint64_t i = 0; i <= kParts; ++i) counts_.emplace(i * (blocks - 1) / kParts, Counts{});
  }
  void clear() {
    counts_.clear();
  }
  bool is_empty() const {
    return counts_.empty();
  }
  Counts* find(uint64_t block) {
    const auto found = counts_.find(block);
    return found == counts_.end() ? nullptr : &found->second;
  }
  std::vector<uint64_t> list_blocks() const {
    std::vector<uint64_t> blocks;
    for (const auto& each : counts_) blocks.push_back(each.first);
    return blocks;
  }
  // Return what the launch does.
  KernelCounts sum() const {
    const double inner = static_cast<double>(counts_.size()) - 2;
    const double share = inner > 0 ? (static_cast<double>(blocks_) - 2) / inner : 1;
    Counts::Used read, written;
    double operations = 0, products = 0, scattered = 0;
    for (const auto& [block, counts] : counts_) {
      const double weight = block == 0 || block + 1 == blocks_ ? 1 : share;
      operations += weight * counts.operations;
      products += weight * counts.products;
      scattered += weight * counts.count_scattered();
      add(read, counts.read, weight);
      add(written, counts.written, weight);
    }
    const double memory = std::min(read.bytes, count_bytes(read)) + std::min(written.bytes, count_bytes(written));
    const double traffic = read.bytes + written.bytes;
    read.allocations.merge(written.allocations);
    const double footprint = std::min(memory, count_bytes(read));
    return {traffic, memory, footprint, operations, products, scattered, warps_};
  }

 private:
  static constexpr uint64_t kParts = 6;
  static void add(Counts::Used& to, const Counts::Used& from, double weight) {
    to.bytes += weight * from.bytes;
    to.allocations.insert(from.allocations.begin(), from.allocations.end());
  }
  static double count_bytes(const Counts::Used& used) {
    double bytes = 0;
    for (const auto& each : used.allocations) bytes += static_cast<double>(each.second);
    return bytes;
  }

  uint64_t blocks_ = 0;
  double warps_ = 0;
  std::map<uint64_t, Counts> counts_;
};

}  // namespace host_cuda
#pragma GCC visibility pop
