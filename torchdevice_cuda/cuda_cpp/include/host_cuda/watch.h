// What a checked build knows of a block's memory: which thread used each byte of shared memory last, and what else a
// kernel may touch. In other builds there is nothing of it.
#pragma once

#include <cstddef>

#pragma GCC visibility push(hidden)
namespace host_cuda {

#ifdef HOST_CUDA_CHECKED
#define HOST_CUDA_UNWATCHED __attribute__((no_sanitize("thread")))
constexpr size_t kGuard = 4096;  // around shared memory, so that what lies beside it is known to be beside it
#else
#define HOST_CUDA_UNWATCHED
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

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#pragma GCC visibility push(hidden)
namespace host_cuda {

enum class Use { kRead, kWrite, kAtomic };

// Who used a byte, when, and by which instruction.
struct Access {
  unsigned rank = 0, interval = 0, clock = 0;
  Use use = Use::kRead;
  const void* from = nullptr;
};
// A list of them. What every access runs is not compiled to be watched itself, and no function of the standard library
// is.
struct Reads {
  Access* all = nullptr;
  unsigned count = 0, room = 0;
  Reads() = default;
  Reads(const Reads&) = delete;
  Reads& operator=(const Reads&) = delete;
  ~Reads() {
    free(all);
  }
  HOST_CUDA_UNWATCHED void add(const Access& one) {
    if (count == room) {
      room = room ? 2 * room : 4;
      all = static_cast<Access*>(realloc(static_cast<void*>(all), room * sizeof(Access)));
      if (!all) abort();
    }
    all[count++] = one;
  }
};
struct Byte {
  Access write;
  Reads reads;  // of the interval, since it was written
};
// A thing in shared memory, known by the declaration's number.
struct Area {
  size_t key;
  const char* begin;
  size_t bytes;
  std::unique_ptr<Byte[]> held;
  Byte* all;
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
  Area* areas = nullptr;
  size_t area_count = 0;
  Range recent[8];  // what was found to be the kernel's to use, last

  void begin() {
    held_areas_.clear();
    area_count = 0;
  }
  void pause() {
    on = false;
  }
  void block(unsigned threads) {
    ++interval;
    clocks_.assign(threads, {});
    for (unsigned i = 0; i < threads; ++i) clocks_[i].of[i % 32] = 1;
    clock_ = clocks_.data();
    for (Range& r : recent) r = {};
  }
  void barrier() {
    ++interval;
  }
  void met(unsigned warp, unsigned lanes) {
    Clock latest{};
    each(warp, lanes, [&](unsigned, const Clock& mine) {
      for (unsigned i = 0; i < 32; ++i) latest.of[i] = latest.of[i] < mine.of[i] ? mine.of[i] : latest.of[i];
    });
    each(warp, lanes, [&](unsigned lane, Clock& mine) {
      mine = latest;
      ++mine.of[lane];
    });
  }
  void shared(size_t key, const char* begin, size_t bytes) {
    Area* found = nullptr;
    for (auto& area : held_areas_)
      if (area.key == key) found = &area;
    if (found && found->begin == begin && found->bytes == bytes) return;
    if (!found) found = &held_areas_.emplace_back();
    auto made = std::make_unique<Byte[]>(bytes);
    Byte* const all = made.get();
    *found = {key, begin, bytes, std::move(made), all};
    areas = held_areas_.data();
    area_count = held_areas_.size();
  }
  // What the use of a byte conflicts with, or nothing.
  HOST_CUDA_UNWATCHED bool conflict(Byte& byte, const Access& now, Access& with) {
    bool found = false;
    if (!in_order(byte.write, now)) with = byte.write, found = true;
    Reads& reads = byte.reads;
    if (now.use == Use::kRead) {
      if (reads.count && reads.all[reads.count - 1].interval != now.interval) reads.count = 0;
      if (reads.count && reads.all[reads.count - 1].rank == now.rank)
        reads.all[reads.count - 1] = now;
      else
        reads.add(now);
      return found;
    }
    for (unsigned i = 0; i < reads.count; ++i)
      if (!found && !in_order(reads.all[i], now)) with = reads.all[i], found = true;
    reads.count = 0;
    byte.write = now;
    return found;
  }
  HOST_CUDA_UNWATCHED unsigned clock_of(unsigned rank) const {
    return clock_[rank].of[rank % 32];
  }
  void remember(Range r) {
    recent[next_++ % 8] = r;
  }

 private:
  struct Clock {
    unsigned of[32];
  };

  HOST_CUDA_UNWATCHED bool in_order(const Access& before, const Access& now) const {
    if (!before.from || before.interval != now.interval || before.rank == now.rank) return true;
    // As compute-sanitizer: what is used by atomics is taken for the program's way to agree.
    if (before.use == Use::kAtomic || now.use == Use::kAtomic) return true;
    return before.rank / 32 == now.rank / 32 && clock_[now.rank].of[before.rank % 32] >= before.clock;
  }
  template <class Call>
  void each(unsigned warp, unsigned lanes, Call call) {
    for (unsigned i = 0; i < 32; ++i)
      if ((lanes >> i & 1) && warp * 32 + i < clocks_.size()) call(i, clocks_[warp * 32 + i]);
  }

  std::vector<Area> held_areas_;
  std::vector<Clock> clocks_;
  Clock* clock_ = nullptr;
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
