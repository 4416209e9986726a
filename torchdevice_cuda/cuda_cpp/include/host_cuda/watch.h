// What a checked build knows of a block's memory: which thread used each byte of shared memory last, and what else a
// kernel may touch. In other builds there is nothing of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#pragma GCC visibility push(hidden)
namespace host_cuda {

#if defined(HOST_CUDA_CHECKED) || defined(HOST_CUDA_COUNTED)
#define HOST_CUDA_UNWATCHED __attribute__((no_sanitize("thread")))
#else
#define HOST_CUDA_UNWATCHED
#endif
#ifdef HOST_CUDA_CHECKED
constexpr size_t kGuard = 4096;  // around shared memory, so that what lies beside it is known to be beside it
#else
constexpr size_t kGuard = 0;
#endif

}  // namespace host_cuda
#pragma GCC visibility pop

#ifndef HOST_CUDA_CHECKED
#include "host_cuda/unchecked.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

struct Watch {
  void block(unsigned, unsigned) {}
  void begin() {}
  void pause() {}
  void barrier() {}
  void grid_barrier() {}
  void fence() {}
  void met(unsigned, unsigned) {}
  void shared(size_t, const char*, size_t) {}
};
// Our own code, in the midst of the program's.
struct Ours {
  explicit Ours(Watch&) {}
  ~Ours() {}
};
// Where a call of the runtime is, as arguments of a function that is not last in the program's stack.
#define HOST_CUDA_SITE
#define HOST_CUDA_SITE_PASSED
#define HOST_CUDA_SITE_WHERE 0
inline void note_memory(const void*, size_t, int) {}
// A launch.
struct Checks {
  Checks(std::vector<uint32_t>&, uint64_t) {
    warn_if_unchecked();
  }
  static constexpr bool is_sequential = false;
};
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

#include "host_cuda/threads.h"
#include "host_sanitizer/canary.h"
#include "host_sanitizer/findings.h"
#include "host_sanitizer/races.h"

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
  bool is_global = false;   // other blocks reach it
  bool is_tracked = false;  // what nothing has written holds canaries
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
  bool is_global = false;
  unsigned block = 0;  // of the first, in global memory
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
  host_sanitizer::Block in_grid;
  Range recent[8];  // what was found to be the kernel's to use, last

  void begin() {
    held_areas_.clear();
    area_count = 0;
  }
  void pause() {
    on = false;
  }
  void block(unsigned threads, unsigned number) {
    first_interval_ = ++interval;
    clocks_.assign(threads, {});
    for (unsigned i = 0; i < threads; ++i) clocks_[i].of[i % 32] = 1;
    clock_ = clocks_.data();
    for (Range& r : recent) r = {};
    in_races([&](host_sanitizer::Races& races) { races.begin_block(in_grid, number, interval); });
  }
  void barrier() {
    ++interval;
    in_races([&](host_sanitizer::Races& races) { races.pass_barrier(in_grid, interval); });
  }
  void grid_barrier() {
    in_races([&](host_sanitizer::Races& races) { races.pass_grid_barrier(in_grid); });
  }
  void fence() {
    in_races([&](host_sanitizer::Races& races) { races.fence(in_grid); });
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
  // Whether this block has written a byte of its shared memory.
  HOST_CUDA_UNWATCHED bool has_written(const Byte& byte) const {
    return byte.write.from && byte.write.interval >= first_interval_;
  }
  HOST_CUDA_UNWATCHED bool has_met(unsigned rank, unsigned before, unsigned clock) const {
    return before / 32 == rank / 32 && clock_[rank].of[before % 32] >= clock;
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
    return has_met(now.rank, before.rank, before.clock);
  }
  template <class Call>
  void in_races(Call call) {
    if (!host_sanitizer::is_on(host_sanitizer::kRacecheck)) return;
    auto& races = host_sanitizer::Races::get();
    const std::lock_guard<std::mutex> lock(races.mutex);
    call(races);
  }
  template <class Call>
  void each(unsigned warp, unsigned lanes, Call call) {
    for (unsigned i = 0; i < 32; ++i)
      if ((lanes >> i & 1) && warp * 32 + i < clocks_.size()) call(i, clocks_[warp * 32 + i]);
  }

  std::vector<Area> held_areas_;
  std::vector<Clock> clocks_;
  Clock* clock_ = nullptr;
  unsigned next_ = 0, first_interval_ = 0;
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

// What cudaMalloc and its kind gave this library, and where it was asked for.
struct Allocation {
  size_t bytes;
  Where where;
};
struct Given {
  std::mutex mutex;
  std::map<const char*, Allocation> all;
};
inline Given& given() {
  static auto* made = new Given;
  return *made;
}
#define HOST_CUDA_SITE , const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define HOST_CUDA_SITE_PASSED , file, line
#define HOST_CUDA_SITE_WHERE \
  ::host_cuda::Where {       \
    file, line               \
  }
inline void note_memory(void* p, size_t bytes, Where where) {
  if (!p) return;
  if (host_sanitizer::is_on(host_sanitizer::kInitcheck))
    host_sanitizer::fill_with_canaries(static_cast<char*>(p), (bytes + 255) / 256 * 256);
  const std::lock_guard<std::mutex> lock(given().mutex);
  given().all[static_cast<const char*>(p)] = {bytes, where};
}
// A launch. Blocks run one after the other, so that findings are the same each time.
struct Checks {
  Checks(std::vector<uint32_t>& order, uint64_t blocks) : launching(mutex()) {
    order = host_sanitizer::choose_order(blocks);
    if (host_sanitizer::is_on(host_sanitizer::kRacecheck)) host_sanitizer::Races::get().begin_launch();
  }
  static std::mutex& mutex() {
    static auto* const made = new std::mutex;
    return *made;
  }
  static constexpr bool is_sequential = true;
  const std::lock_guard<std::mutex> launching;
};

inline void forget_memory(const void* p) {
  const std::lock_guard<std::mutex> lock(given().mutex);
  given().all.erase(static_cast<const char*>(p));
}

}  // namespace host_cuda
#pragma GCC visibility pop
#endif
