// Memory that is given back in the reverse order of its taking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#pragma GCC visibility push(hidden)
namespace host_cuda {

class Arena {
 public:
  struct Mark {
    size_t chunk, used;
  };
  Mark mark() const {
    return {chunk_, used_};
  }
  void release(Mark to) {
    chunk_ = to.chunk;
    used_ = to.used;
  }
  char* take(size_t bytes) {
    bytes = (bytes + 63) / 64 * 64;
    while (chunk_ < chunks_.size() && used_ + bytes > chunks_[chunk_].bytes) {
      ++chunk_;
      used_ = 0;
    }
    if (chunk_ == chunks_.size()) {
      const size_t size = bytes > kChunk ? bytes : kChunk;
      chunks_.push_back({std::make_unique<char[]>(size + 64), size});
      used_ = 0;
    }
    const auto begin = reinterpret_cast<uintptr_t>(chunks_[chunk_].memory.get());
    char* const found = reinterpret_cast<char*>((begin + 63) / 64 * 64) + used_;
    used_ += bytes;
    return found;
  }

 private:
  struct Chunk {
    std::unique_ptr<char[]> memory;
    size_t bytes;
  };
  static constexpr size_t kChunk = 256 << 10;
  std::vector<Chunk> chunks_;
  size_t chunk_ = 0, used_ = 0;
};

}  // namespace host_cuda
#pragma GCC visibility pop
