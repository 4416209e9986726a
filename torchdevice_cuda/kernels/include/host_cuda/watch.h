// What a checked build knows of a block's memory: which thread used each byte of shared memory last, and what else a
// kernel may touch. In other builds there is nothing of it.
#pragma once

#include <cstddef>

#pragma GCC visibility push(hidden)
namespace host_cuda {

#ifdef HOST_CUDA_CHECKED
constexpr size_t kGuard = 4096;  // around shared memory, so that what lies beside it is known to be beside it
#else
constexpr size_t kGuard = 0;
#endif

}  // namespace host_cuda
#pragma GCC visibility pop

#ifndef HOST_CUDA_CHECKED
#pragma GCC visibility push(hidden)
namespace host_cuda {

struct Watch {
  void block(unsigned) {}
  void begin() {}
  void pause() {}
  void barrier() {}
  void met(unsigned, unsigned) {}
  void shared(size_t, const char*, size_t) {}
};
// Our own code, in the midst of the program's.
struct Ours {
  explicit Ours(Watch&) {}
  ~Ours() {}
};
inline void note_memory(const void*, size_t) {}
inline void forget_memory(const void*) {}

}  // namespace host_cuda
#pragma GCC visibility pop
#else

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#define HOST_CUDA_UNWATCHED __attribute__((no_sanitize("thread")))

#pragma GCC visibility push(hidden)
namespace host_cuda {

enum class Use { kRead, kWrite, kAtomic };

// Who used a byte, when, and by which instruction.
struct Access {
  unsigned rank = 0, interval = 0, clock = 0;
  Use use = Use::kRead;
  const void* from = nullptr;
};
struct Byte {
  Access write;
  std::vector<Access> reads;  // of the interval, since it was written
};
// A thing in shared memory, known by the declaration's number.
struct Area {
  size_t key;
  const char* begin;
  size_t bytes;
  std::vector<Byte> all;
};
struct Range {
  const char *begin = nullptr, *end = nullptr;
  bool has(const char* p, size_t n) const {
    return p >= begin && p + n <= end;
  }
};
// A byte that two threads have written: no hazard if both wrote the same, which is seen when it has been written.
struct Doubt {
  const char* at = nullptr;
  size_t bytes = 0, place = 0;
  char before[16];
  Access first, second;
};

// Two uses of shared memory are in order if a barrier of the block lies between them (`interval`), or their threads'
// warp has met since (`clocks`: of each thread, the last meeting of every lane that it knows of).
class Watch {
 public:
  volatile bool on = false;  // read by calls that the compiler adds late: it would take the stores for dead
  unsigned interval = 0;
  Doubt doubt;
  std::vector<Area> areas;

  void begin() {
    areas.clear();
  }
  void pause() {
    on = false;
  }
  void block(unsigned threads) {
    ++interval;
    clocks_.assign(threads, {});
    for (unsigned i = 0; i < threads; ++i) clocks_[i][i % 32] = 1;
    recent_ = {};
  }
  void barrier() {
    ++interval;
  }
  void met(unsigned warp, unsigned lanes) {
    std::array<unsigned, 32> latest{};
    each(warp, lanes, [&](unsigned, const std::array<unsigned, 32>& mine) {
      for (unsigned i = 0; i < 32; ++i) latest[i] = latest[i] < mine[i] ? mine[i] : latest[i];
    });
    each(warp, lanes, [&](unsigned lane, std::array<unsigned, 32>& mine) {
      mine = latest;
      ++mine[lane];
    });
  }
  void shared(size_t key, const char* begin, size_t bytes) {
    Area* found = nullptr;
    for (auto& area : areas)
      if (area.key == key) found = &area;
    if (!found) found = &areas.emplace_back();
    if (found->begin != begin || found->bytes != bytes) *found = {key, begin, bytes, std::vector<Byte>(bytes)};
  }
  // What the use of a byte conflicts with, or nothing.
  bool conflict(Byte& byte, Access now, Access& with) {
    const Access& w = byte.write;
    bool found = false;
    if (!in_order(w, now)) with = w, found = true;
    if (now.use == Use::kRead) {
      auto& reads = byte.reads;
      if (!reads.empty() && reads.back().interval != now.interval) reads.clear();
      if (reads.empty() || reads.back().rank != now.rank)
        reads.push_back(now);
      else
        reads.back() = now;
      return found;
    }
    for (const Access& r : byte.reads)
      if (!found && !in_order(r, now)) with = r, found = true;
    byte.reads.clear();
    byte.write = now;
    return found;
  }
  unsigned clock_of(unsigned rank) const {
    return rank < clocks_.size() ? clocks_[rank][rank % 32] : 0;
  }
  bool is_recent(const char* p, size_t n) const {
    for (const Range& r : recent_)
      if (r.has(p, n)) return true;
    return false;
  }
  void remember(Range r) {
    recent_[next_++ % recent_.size()] = r;
  }

 private:
  bool in_order(const Access& before, const Access& now) const {
    if (!before.from || before.interval != now.interval || before.rank == now.rank) return true;
    // As compute-sanitizer: what is used by atomics is taken for the program's way to agree.
    if (before.use == Use::kAtomic || now.use == Use::kAtomic) return true;
    return before.rank / 32 == now.rank / 32 && clocks_[now.rank][before.rank % 32] >= before.clock;
  }
  template <class Call>
  void each(unsigned warp, unsigned lanes, Call call) {
    for (unsigned i = 0; i < 32; ++i)
      if ((lanes >> i & 1) && warp * 32 + i < clocks_.size()) call(i, clocks_[warp * 32 + i]);
  }

  std::vector<std::array<unsigned, 32> > clocks_;
  std::array<Range, 16> recent_;
  unsigned next_ = 0;
};

struct Ours {
  Watch& watch;
  const bool was;
  HOST_CUDA_UNWATCHED explicit Ours(Watch& w) : watch(w), was(w.on) {
    watch.on = false;
  }
  HOST_CUDA_UNWATCHED ~Ours() {
    watch.on = was;
  }
};

// What cudaMalloc and its kind gave this library.
struct Given {
  std::mutex mutex;
  std::map<const char*, size_t> all;
};
inline Given& given() {
  static auto* made = new Given;
  return *made;
}
inline void note_memory(const void* p, size_t bytes) {
  if (!p) return;
  const std::lock_guard<std::mutex> lock(given().mutex);
  given().all[static_cast<const char*>(p)] = bytes;
}
inline void forget_memory(const void* p) {
  const std::lock_guard<std::mutex> lock(given().mutex);
  given().all.erase(static_cast<const char*>(p));
}

}  // namespace host_cuda
#pragma GCC visibility pop
#endif
