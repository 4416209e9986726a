// The barrier of a grid, for cooperative launches: there each block has a thread of the host.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#pragma GCC visibility push(hidden)
namespace host_cuda {

class GridBarrier {
 public:
  explicit GridBarrier(uint64_t blocks) : blocks_(blocks) {}
  // Return whether all blocks have come. They cannot all come once a thread of the host has left.
  bool wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    const uint64_t mine = generation_;
    if (++arrived_ == blocks_) {
      arrived_ = 0;
      ++generation_;
      all_.notify_all();
      return true;
    }
    release_stuck();
    all_.wait(lock, [&] { return generation_ != mine || is_stuck_; });
    return generation_ != mine;
  }
  void leave() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++left_;
    release_stuck();
  }

 private:
  void release_stuck() {
    if (arrived_ == 0 || arrived_ + left_ < blocks_) return;
    is_stuck_ = true;
    all_.notify_all();
  }
  const uint64_t blocks_;
  std::mutex mutex_;
  std::condition_variable all_;
  uint64_t arrived_ = 0, left_ = 0, generation_ = 0;
  bool is_stuck_ = false;
};

}  // namespace host_cuda
#pragma GCC visibility pop
