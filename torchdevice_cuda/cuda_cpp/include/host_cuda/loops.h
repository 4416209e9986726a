// A block whose threads are loops: a kernel that was split at its barriers (cuda_cpp/splitting.py).
//
// Between two barriers every thread runs in turn. Variables that live across a barrier are arrays with an element per
// thread (`Each`). Threads that left a loop, a condition or the kernel have a lower level than the code that runs.
#pragma once

#include "host_cuda/block.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

template <class T>
void store(T& to, const T& from) {
  if constexpr (std::is_array_v<T> || std::is_trivially_copyable_v<T>)
    std::memcpy(static_cast<void*>(&to), &from, sizeof(T));
  else
    ::new (static_cast<void*>(&to)) T(from);
}

class Loops;

// A variable of every thread. Nothing constructs or destroys the elements: kernels' types need neither.
template <class T>
class Each {
 public:
  using Value = std::remove_cv_t<T>;
  explicit Each(Loops& loops);
  Each(Each&& other) noexcept : arena_(other.arena_), mark_(other.mark_), data_(other.data_) {
    other.arena_ = nullptr;
  }
  ~Each() {
    if (arena_) arena_->release(mark_);
  }
  Value& operator[](size_t i) const {
    return data_[i];
  }

 private:
  Arena* arena_;
  Arena::Mark mark_;
  Value* data_;
};

class Loops {
 public:
  Worker& worker;
  const dim3 n;
  const unsigned count;

  explicit Loops(Worker& w)
      : worker(w),
        n(w.launch->block),
        count(n.x * n.y * n.z),
        mark_(w.arena.mark()),
        level_(reinterpret_cast<signed char*>(w.arena.take(count))) {
    std::memset(level_, 0, count);
    worker.begin_block(count);
    worker.is_looping = true;
  }
  ~Loops() {
    worker.is_looping = false;
    worker.arena.release(mark_);
  }
  Loops(const Loops&) = delete;

  // Runs the threads whose level is `depth`, or all of them. Those that may be asked who they are say it (`kKnown`).
  // Downwards, thread 0 is last: programs let it write what others have just read.
  template <bool kMasked, bool kKnown, bool kDown, class F>
  __attribute__((always_inline)) inline void each(int depth, const F& f) {
    const dim3 size = n;  // the compiler cannot know that the threads leave it as it is
    const signed char* const levels = level_;
    // A signed number of a thread does not wrap, so the compiler sees that neighbors use neighboring elements.
    const auto run = [&](unsigned z, unsigned y, int x, size_t row) __attribute__((always_inline)) {
      const size_t i = row + static_cast<size_t>(x);
      if (!kMasked || levels[i] >= depth) one<kKnown>(f, uint3{static_cast<unsigned>(x), y, z}, i);
    };
    if constexpr (kDown) {
      size_t row = count;
      for (unsigned z = size.z; z-- > 0;)
        for (unsigned y = size.y; y-- > 0;) {
          row -= size.x;
          const int first = start<kMasked>(row, size.x);
          for (int x = stop<kMasked>(row, size.x) - 1; x >= first; --x) run(z, y, x, row);
        }
    } else {
      size_t row = 0;
      for (unsigned z = 0; z < size.z; ++z)
        for (unsigned y = 0; y < size.y; ++y, row += size.x) {
          const int last = stop<kMasked>(row, size.x);
#pragma GCC ivdep
          for (int x = start<kMasked>(row, size.x); x < last; ++x) run(z, y, x, row);
        }
    }
  }
  // Makes a variable of what a function returns for each thread.
  template <bool kMasked, bool kKnown, class F>
  __attribute__((always_inline)) inline auto gather(int depth, const F& f) {
    Each<std::decay_t<decltype(f(uint3{}, size_t{}))>> made(*this);
    each<kMasked, kKnown, false>(depth, [&](uint3 thread, size_t i) { store(made[i], f(thread, i)); });
    return made;
  }

  void leave(size_t i, int level) {
    level_[i] = static_cast<signed char>(level);
    if (level < 0) worker.exit_lane(static_cast<unsigned>(i));
  }
  void enter(size_t i, int level) {
    level_[i] = static_cast<signed char>(level);
  }
  void move(int from, int to) {
    const auto old = static_cast<signed char>(from), made = static_cast<signed char>(to);
    signed char* const levels = level_;
    for (unsigned i = first_, last = last_; i < last; ++i) levels[i] = levels[i] == old ? made : levels[i];
  }
  bool any(int depth) const {
    const auto wanted = static_cast<signed char>(depth);
    bool found = false;
    for (unsigned i = first_, last = last_; i < last; ++i) found |= level_[i] >= wanted;
    return found;
  }
  // The threads of a level have come to where they meet.
  void meet(int depth) {
    if (__builtin_expect(worker.has_missed, 0)) check_missed(depth);
  }

 private:
  friend class Inside;
  template <bool kMasked>
  int start(size_t row, unsigned size) const {
    return !kMasked || first_ <= row ? 0 : static_cast<int>(std::min<size_t>(first_ - row, size));
  }
  template <bool kMasked>
  int stop(size_t row, unsigned size) const {
    return static_cast<int>(!kMasked || last_ >= row + size ? size : last_ <= row ? 0 : last_ - row);
  }
  __attribute__((noinline, cold)) void check_missed(int depth) {
    for (unsigned i = 0; i < count; ++i)
      if (level_[i] >= depth && worker.is_missed(i)) worker.fail_for_missed();
  }
  template <bool kKnown, class F>
  __attribute__((always_inline)) inline void one(const F& f, uint3 thread, size_t i) {
    if constexpr (kKnown) {
      worker.thread = thread;
      worker.rank = static_cast<unsigned>(i);
    }
    f(thread, i);
  }

  Arena::Mark mark_;
  signed char* const level_;
  unsigned first_ = 0, last_ = count;  // outside of these, no thread has the level of the code that runs
};

// Code that only threads of a level run, if there are any: loops go from their first warp to their last.
class Inside {
 public:
  Inside(Loops& loops, int depth) : loops_(loops), first_(loops.first_), last_(loops.last_) {
    const auto wanted = static_cast<signed char>(depth);
    unsigned first = last_, last = first_;
    for (unsigned i = first_ / 32 * 32; i < last_; i += 32) {
      const unsigned end = std::min(i + 32, loops.count);
      bool found = false;
      for (unsigned k = i; k < end; ++k) found |= loops.level_[k] >= wanted;
      if (found) {
        first = std::min(first, i);
        last = end;
      }
    }
    loops.first_ = first;
    loops.last_ = last;
  }
  ~Inside() {
    loops_.first_ = first_;
    loops_.last_ = last_;
  }
  Inside(const Inside&) = delete;
  explicit operator bool() const {
    return loops_.first_ < loops_.last_;
  }

 private:
  Loops& loops_;
  const unsigned first_, last_;
};

template <class T>
Each<T>::Each(Loops& loops)
    : arena_(&loops.worker.arena),
      mark_(arena_->mark()),
      data_(reinterpret_cast<Value*>(arena_->take(sizeof(Value) * loops.count))) {}

// What the lanes of every warp exchange at one place of the kernel: all give, then all take.
class Exchange {
 public:
  explicit Exchange(Loops& loops)
      : worker_(loops.worker),
        mark_(worker_.arena.mark()),
        lanes_(reinterpret_cast<Lanes*>(worker_.arena.take(sizeof(Lanes) * ((loops.count + 31) / 32)))) {
    for (unsigned i = 0; i < (loops.count + 31) / 32; ++i) lanes_[i].arrived = 0;
  }
  ~Exchange() {
    worker_.exchange = nullptr;
    worker_.arena.release(mark_);
  }
  Exchange(const Exchange&) = delete;
  void give() {
    worker_.exchange = lanes_;
    worker_.gives = true;
  }
  void take() {
    worker_.exchange = lanes_;
    worker_.gives = false;
  }

 private:
  Worker& worker_;
  Arena::Mark mark_;
  Lanes* const lanes_;
};

// The lanes from which shuffles take values.
struct ShuffleIndexed {
  static constexpr const char* kName = "__shfl_sync";
  static int find(int lane, int source, int width) {
    return (lane & ~(width - 1)) + (source & (width - 1));
  }
};
struct ShuffleUp {
  static constexpr const char* kName = "__shfl_up_sync";
  static int find(int lane, int delta, int width) {
    return lane - delta < (lane & ~(width - 1)) ? lane : lane - delta;
  }
};
struct ShuffleDown {
  static constexpr const char* kName = "__shfl_down_sync";
  static int find(int lane, int delta, int width) {
    return lane + delta >= (lane & ~(width - 1)) + width ? lane : lane + delta;
  }
};
struct ShuffleXor {
  static constexpr const char* kName = "__shfl_xor_sync";
  static int find(int lane, int lanes, int width) {
    return (lane ^ lanes) >= (lane & ~(width - 1)) + width ? lane : lane ^ lanes;
  }
};

// The sources of a warp's lanes.
struct Lanes32 {
  int sources[32];
  bool is_inside;  // all are lanes
  // Most shuffles take from two distances, by which lanes are copied several at once; a gather is slower than one by
  // one.
  int low, high;
  bool has_two;
  uint64_t takes_high[32];

  template <class F>
  explicit Lanes32(const F& find) {
    for (int i = 0; i < 32; ++i) sources[i] = find(i);
    int outside = 0, odd = 0;
    low = high = sources[0];
    for (int i = 0; i < 32; ++i) {
      outside |= sources[i] & ~31;
      low = std::min(low, sources[i] - i);
      high = std::max(high, sources[i] - i);
    }
    for (int i = 0; i < 32; ++i) {
      odd |= (sources[i] - i != low) & (sources[i] - i != high);
      takes_high[i] = sources[i] - i == high ? ~uint64_t{0} : 0;
    }
    is_inside = outside == 0;
    has_two = odd == 0;
  }
  void copy(const uint64_t* from, uint64_t* to) const {
    if (has_two) {
      for (int i = 0; i < 32; ++i) to[i] = (from[i + low] & ~takes_high[i]) | (from[i + high] & takes_high[i]);
      return;
    }
    for (int i = 0; i < 32; ++i) {
      to[i] = from[sources[i]];
      asm volatile("");
    }
  }
};

// The same for shuffles, without asking which thread runs: a value of each thread in a row.
class Shuffle {
 public:
  // Where all threads that have not ended are there (`!kMasked`), that need not be noted.
  Shuffle(Loops& loops, bool is_masked)
      : worker_(loops.worker),
        count_(loops.count),
        mark_(worker_.arena.mark()),
        // Before and after it, lanes that do not exist are read.
        values_(reinterpret_cast<uint64_t*>(worker_.arena.take(sizeof(uint64_t) * (loops.count + 31 + 64))) + 32),
        taken_(reinterpret_cast<uint64_t*>(worker_.arena.take(sizeof(uint64_t) * (loops.count + 31)))),
        arrived_(reinterpret_cast<unsigned*>(worker_.arena.take(sizeof(unsigned) * (loops.count + 31) / 32))) {
    for (unsigned i = 0; i < (loops.count + 31) / 32; ++i) arrived_[i] = is_masked ? 0 : worker_.live_lanes(i);
  }
  ~Shuffle() {
    worker_.arena.release(mark_);
  }
  Shuffle(const Shuffle&) = delete;

  template <bool kMasked, class T>
  void give(size_t i, const T& value) {
    static_assert(sizeof(T) <= 8, "a lane exchanges at most 8 bytes");
    Bits<T> bits{};
    std::memcpy(&bits, &value, sizeof(T));
    values_[i] = bits;
    if constexpr (kMasked) arrived_[i / 32] |= 1u << i % 32;
  }
  // What a lane gets whose arguments are its own.
  template <class T, class Source>
  T take(size_t i, unsigned mask, int from, int width, Where where) const {
    return read<T>(find(i, mask, Source::find(static_cast<int>(i % 32), from, width), Source::kName, where));
  }
  // What all lanes get where their arguments are the same: `taken` returns it.
  template <class Source>
  void take_all(unsigned mask, int from, int width, Where where) {
    uint64_t *const values = values_, *const taken = taken_;
    const Lanes32 lanes([&](int lane) { return Source::find(lane, from, width); });
    for (size_t warp = 0; warp * 32 < count_; ++warp) {
      const size_t first = warp * 32;
      const unsigned arrived = arrived_[warp];
      if (arrived == ~0u && mask == ~0u && lanes.is_inside) {
        lanes.copy(values + first, taken + first);
        continue;
      }
      for (size_t i = 0; arrived && i < 32; ++i)
        if (arrived >> i & 1) taken[first + i] = find(first + i, mask, lanes.sources[i], Source::kName, where);
    }
  }
  template <class T>
  T taken(size_t i) const {
    return read<T>(taken_[i]);
  }

 private:
  // An integer of the same size, which the compiler converts for several lanes at once.
  template <class T>
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  template <class T>
  static T read(uint64_t value) {
    const auto bits = static_cast<Bits<T>>(value);
    T result;
    std::memcpy(&result, &bits, sizeof(T));
    return result;
  }
  uint64_t find(size_t i, unsigned mask, int source, const char* what, Where where) const {
    const unsigned arrived = arrived_[i / 32];
    if (__builtin_expect(!(mask >> i % 32 & 1) || (mask & ~arrived), 0)) check(i, mask, what, where);
    const bool is_there = source >= 0 && source < 32 && (arrived & mask) >> source & 1;
    return values_[is_there ? i - i % 32 + static_cast<size_t>(source) : i];
  }
  __attribute__((noinline, cold)) void check(size_t i, unsigned mask, const char* what, Where where) const {
    const dim3 n = worker_.launch->block;
    const auto rank = static_cast<unsigned>(i);
    worker_.rank = rank;
    worker_.thread = {rank % n.x, rank / n.x % n.y, rank / n.x / n.y};
    if (!(mask >> i % 32 & 1))
      worker_.fail(cudaErrorLaunchFailure, where, "%s: the mask 0x%08x does not name the calling thread", what, mask);
    if (const unsigned missed = mask & ~arrived_[i / 32] & worker_.live_lanes(rank / 32))
      worker_.miss(missed, what, where);
  }

  Worker& worker_;
  const unsigned count_;
  Arena::Mark mark_;
  uint64_t *const values_, *const taken_;
  unsigned* const arrived_;
};

// A device function's threads while they are in it: those that have returned have the caller's level.
class Call {
 public:
  Call(Loops& loops, int depth) : loops_(loops), depth_(depth) {
    loops_.move(depth_, depth_ + 1);
  }
  ~Call() {
    loops_.move(depth_ + 1, depth_);
  }
  Call(const Call&) = delete;

 private:
  Loops& loops_;
  const int depth_;
};

}  // namespace host_cuda
#pragma GCC visibility pop
