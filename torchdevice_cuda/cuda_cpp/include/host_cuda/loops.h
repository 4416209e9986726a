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
    if constexpr (kDown) {
      size_t i = count;
      for (unsigned z = n.z; z-- > 0;)
        for (unsigned y = n.y; y-- > 0;)
          for (unsigned x = n.x; x-- > 0;) one<kMasked, kKnown>(depth, f, uint3{x, y, z}, --i);
    } else {
      size_t row = 0;
      for (unsigned z = 0; z < n.z; ++z)
        for (unsigned y = 0; y < n.y; ++y, row += n.x)
#pragma GCC ivdep
          for (unsigned x = 0; x < n.x; ++x) one<kMasked, kKnown>(depth, f, uint3{x, y, z}, row + x);
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
    for (unsigned i = 0; i < count; ++i) level_[i] = level_[i] == old ? made : level_[i];
  }
  bool any(int depth) const {
    const auto wanted = static_cast<signed char>(depth);
    bool found = false;
    for (unsigned i = 0; i < count; ++i) found |= level_[i] >= wanted;
    return found;
  }
  // The threads of a level have come to where they meet.
  void meet(int depth) {
    if (__builtin_expect(worker.has_missed, 0)) check_missed(depth);
  }

 private:
  __attribute__((noinline, cold)) void check_missed(int depth) {
    for (unsigned i = 0; i < count; ++i)
      if (level_[i] >= depth && worker.is_missed(i)) worker.fail_for_missed();
  }
  template <bool kMasked, bool kKnown, class F>
  __attribute__((always_inline)) inline void one(int depth, const F& f, uint3 thread, size_t i) {
    if constexpr (kMasked)
      if (level_[i] < depth) return;
    if constexpr (kKnown) {
      worker.thread = thread;
      worker.rank = static_cast<unsigned>(i);
    }
    f(thread, i);
  }

  Arena::Mark mark_;
  signed char* const level_;
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

// The same for shuffles, without asking which thread runs: a value of each thread in a row.
class Shuffle {
 public:
  // Where all threads that have not ended are there (`!kMasked`), that need not be noted.
  Shuffle(Loops& loops, bool is_masked)
      : worker_(loops.worker),
        mark_(worker_.arena.mark()),
        values_(reinterpret_cast<uint64_t*>(worker_.arena.take(sizeof(uint64_t) * (loops.count + 31)))),
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
    std::memcpy(&values_[i], &value, sizeof(T));
    if constexpr (kMasked) arrived_[i / 32] |= 1u << i % 32;
  }
  template <class T>
  T shfl_sync(size_t i, unsigned mask, int source, int width, Where where) const {
    const int base = lane(i) & ~(width - 1);
    return take<T>(i, mask, base + (source & (width - 1)), "__shfl_sync", where);
  }
  template <class T>
  T shfl_up_sync(size_t i, unsigned mask, unsigned delta, int width, Where where) const {
    const int base = lane(i) & ~(width - 1), source = lane(i) - static_cast<int>(delta);
    return take<T>(i, mask, source < base ? lane(i) : source, "__shfl_up_sync", where);
  }
  template <class T>
  T shfl_down_sync(size_t i, unsigned mask, unsigned delta, int width, Where where) const {
    const int end = (lane(i) & ~(width - 1)) + width, source = lane(i) + static_cast<int>(delta);
    return take<T>(i, mask, source >= end ? lane(i) : source, "__shfl_down_sync", where);
  }
  template <class T>
  T shfl_xor_sync(size_t i, unsigned mask, int lanes, int width, Where where) const {
    const int end = (lane(i) & ~(width - 1)) + width, source = lane(i) ^ lanes;
    return take<T>(i, mask, source >= end ? lane(i) : source, "__shfl_xor_sync", where);
  }

 private:
  static int lane(size_t i) {
    return static_cast<int>(i % 32);
  }
  template <class T>
  T take(size_t i, unsigned mask, int source, const char* what, Where where) const {
    const unsigned arrived = arrived_[i / 32];
    if (__builtin_expect(!(mask >> lane(i) & 1) || (mask & ~arrived), 0)) check(i, mask, what, where);
    const bool is_there = source >= 0 && source < 32 && (arrived & mask) >> source & 1;
    T value;
    std::memcpy(&value, &values_[is_there ? i - i % 32 + static_cast<size_t>(source) : i], sizeof(T));
    return value;
  }
  __attribute__((noinline, cold)) void check(size_t i, unsigned mask, const char* what, Where where) const {
    const dim3 n = worker_.launch->block;
    const auto rank = static_cast<unsigned>(i);
    worker_.rank = rank;
    worker_.thread = {rank % n.x, rank / n.x % n.y, rank / n.x / n.y};
    if (!(mask >> lane(i) & 1))
      worker_.fail(cudaErrorLaunchFailure, where, "%s: the mask 0x%08x does not name the calling thread", what, mask);
    if (const unsigned missed = mask & ~arrived_[i / 32] & worker_.live_lanes(rank / 32))
      worker_.miss(missed, what, where);
  }

  Worker& worker_;
  Arena::Mark mark_;
  uint64_t* const values_;
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
