// The threads of a block, on one core.
//
// A kernel is called once for a block and runs its body for each thread, one after the other, on the caller's stack.
// When a thread has to wait for others, that stack waits with it, and a new one takes over the threads that have not
// begun. So a kernel without barriers never leaves its stack, and one with barriers has a stack for every thread.
#pragma once

#include <algorithm>
#include <cstdarg>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "host_cuda/arena.h"
#include "host_cuda/counts.h"
#include "host_cuda/errors.h"
#include "host_cuda/threads.h"
#include "host_cuda/watch.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

class Worker;
// Of checks.h: what two threads have written, and threads that do not come to where others wait.
#ifdef HOST_CUDA_CHECKED
void settle(Worker& w);
void check_barrier(const Worker& w, const std::vector<Fiber*>& waiting, const char* what);
void check_meeting(const Worker& w, const Meeting& m, unsigned ended);
#else
inline void check_barrier(const Worker&, const std::vector<Fiber*>&, const char*) {}
inline void check_meeting(const Worker&, const Meeting&, unsigned) {}
#endif

class Worker {
 public:
  const Launch* launch = nullptr;
  uint3 block{0, 0, 0}, thread{0, 0, 0};
  unsigned rank = 0, epoch = 0;
  std::exception_ptr error;
  std::vector<std::unique_ptr<char[]>> shared;  // objects by site
  std::vector<Extent> extents;                  // of the objects
  bool carry = false;                           // the flag that PTX\'s add.cc sets and addc reads
  std::unique_ptr<char[]> dynamic;
  size_t dynamic_bytes = 0;
  Watch watch;
  Counts* counts = nullptr;   // of the block, if it is one of the sample
  Allocations allocations;    // that it uses
  Arena arena;                // variables of threads that are loops (loops.h)
  Lanes* exchange = nullptr;  // of threads that are loops: by warp
  bool gives = false;         // whether they give or take
  bool is_looping = false, has_missed = false;

  using Body = void (*)(const void* body, Worker& w);

  // What both kinds of threads, fibers and loops, begin with.
  void begin_block(unsigned threads) {
    count_ = next_ = live_ = threads;
    failed_ = has_missed = false;
    warps_.resize((threads + 31) / 32);
    for (auto& warp : warps_) {
      warp.exited = warp.missed = 0;
      warp.meetings.clear();
    }
    if (threads % 32) warps_.back().exited = ~0u << (threads % 32);
  }
  void exit_lane(unsigned i) {
    --live_;
    warps_[i / 32].exited |= 1u << (i % 32);
  }
  void run(const void* body, Body call, unsigned threads) {
    begin_block(threads);
    body_ = body;
    call_ = call;
    next_ = votes_ = arrived_ = 0;
    epoch = grid_epoch_ = 0;
    watch.block(threads, launch ? block.x + launch->grid.x * (block.y + launch->grid.y * block.z) : 0);
    current_ = &main_;
    main_idle_ = false;
    drain();
    while (running_ > 0) {
      main_idle_ = true;
      away(nullptr);
    }
  }

  // All threads that have not ended; how many said yes.
  int barrier(bool vote, const char* what, Where where) {
    if (exchange) return 0;  // CUB's: its threads give before it and take after it
    fail_in_loop(what, where);
    const Ours ours(watch);
    votes_ += vote;
    current_->where = where;
    barrier_.push_back(current_);
    if (++arrived_ == live_) {
      check_barrier(*this, barrier_, what);
      release();
    }
    away(what);
    return result_;
  }

  // Comes back when every lane of the mask is here. Whoever has read calls `leave`.
  Meeting& meet(unsigned mask, uint64_t value, const char* what, Where where) {
    fail_in_loop(what, where);
    const Ours ours(watch);
    auto& warp = warps_[rank / 32];
    const unsigned bit = 1u << (rank % 32);
    if (!(mask & bit))
      fail(cudaErrorLaunchFailure, where, "%s: the mask 0x%08x does not name the calling thread", what, mask);
    Meeting* found = nullptr;
    for (auto* m : warp.meetings)
      if (!m->complete && m->mask == mask && !(m->arrived & bit)) found = m;
    if (!found) {
      if (spare_.empty()) {
        made_.push_back(std::make_unique<Meeting>());
        spare_.push_back(made_.back().get());
      }
      found = spare_.back();
      spare_.pop_back();
      found->mask = mask;
      found->arrived = 0;
      found->complete = false;
      found->waiting.clear();
      warp.meetings.push_back(found);
    }
    found->values[rank % 32] = value;
    found->arrived |= bit;
    if (!complete(*found, warp.exited)) {
      current_->where = where;
      found->waiting.push_back(current_);
      away(what);
    }
    return *found;
  }
  void leave(Meeting& m) {
    const Ours ours(watch);
    if (--m.leaving > 0) return;
    auto& all = warps_[rank / 32].meetings;
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i] == &m) {
        all[i] = all.back();
        all.pop_back();
        break;
      }
    spare_.push_back(&m);
  }
  // The first thread of the block that goes on waits for the other blocks: the rest of its block waits with it.
  void meet_grid(Where where) {
    barrier(false, "grid.sync()", where);
    GridBarrier* const grid = launch->grid_barrier;
    if (!grid || grid_epoch_ == epoch) return;
    const Ours ours(watch);
    grid_epoch_ = epoch;
    if (grid->wait()) return watch.grid_barrier();
    if (standing() != cudaSuccess) end(standing());
    fail(cudaErrorLaunchFailure, where, "waits in grid.sync() for blocks that have ended");
  }
  // Has others run until a thread wakes those that wait with this key.
  void park(const void* key, const char* what, Where where) {
    fail_in_loop(what, where);
    const Ours ours(watch);
    current_->where = where;
    parked_.push_back({key, current_});
    away(what);
  }
  // What the woken threads do comes after all that the block has done.
  void wake(const void* key) {
    const Ours ours(watch);
    rewind();
    const auto woken = std::stable_partition(
        parked_.begin(), parked_.end(), [key](const auto& parked) { return parked.first != key; });
    for (auto i = woken; i != parked_.end(); ++i) ready_.push_back(i->second);
    parked_.erase(woken, parked_.end());
    watch.barrier();
  }
  // The lanes of the warp that come here together: all that can go no further elsewhere first.
  unsigned converge(Where where) {
    fail_in_loop("__activemask()", where);
    const Ours ours(watch);
    Fiber* me = current_;
    me->where = where;
    converging_.push_back(me);
    away("__activemask()");
    return me->lanes;
  }
  // Comes back when no lane of the warp is at an earlier place of the source.
  void step(unsigned place, Where where) {
    const char* what = "an access to volatile memory";
    fail_in_loop(what, where);
    const Ours ours(watch);
    current_->where = where;
    current_->place_of_step = place;
    steps_.push_back(current_);
    away(what);
  }
  // Threads that are loops: others exchange values without these lanes, which a GPU allows if they end instead.
  void miss(unsigned lanes, const char* what, Where where) {
    warps_[rank / 32].missed |= lanes;
    missed_ = {rank, what, where};
    has_missed = true;
  }
  // They have come to where threads meet, so others still wait for them.
  [[noreturn]] void fail_for_missed() {
    const dim3 n = launch->block;
    thread = {missed_.rank % n.x, missed_.rank / n.x % n.y, missed_.rank / n.x / n.y};
    fail(
        cudaErrorLaunchFailure, missed_.where,
        "waits in %s for threads that do not come; if they come to it elsewhere, compile it with "
        "TORCHDEVICE_KERNEL_FIBERS=1",
        missed_.what);
  }
  bool is_missed(unsigned i) const {
    const auto& warp = warps_[i / 32];
    return warp.missed & ~warp.exited & 1u << i % 32;
  }
  unsigned live_lanes() const {
    return live_lanes(rank / 32);
  }
  unsigned live_lanes(unsigned warp) const {
    return ~warps_[warp].exited;
  }
  unsigned started() const {
    return next_;
  }
  unsigned live() const {
    return live_;
  }
  unsigned threads() const {
    return count_;
  }

  // Says what is wrong with the running thread, and ends the kernel.
  [[noreturn]] __attribute__((format(printf, 4, 5))) void fail(int code, Where where, const char* format, ...) {
    va_list list;
    va_start(list, format);
    char text[512];
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (!failed_) say(text, thread, where);
    end(code);
  }
  // The kernel was split at its barriers (loops.h) and this one was not seen.
  void fail_in_loop(const char* what, Where where) {
    if (is_looping)
      fail(cudaErrorLaunchFailure, where, "cannot wait in %s here; compile it with TORCHDEVICE_KERNEL_FIBERS=1", what);
  }
  [[noreturn]] void end(int code) {
    lasting_error.store(code);
    failed_ = true;
    throw Ended{};
  }
#ifdef HOST_CUDA_CHECKED
  // Runs a thread. Whoever may not throw ends it with `quit`; what it holds is not given back.
  template <class F>
  void run_watched(const F& thread_body) {
    if (setjmp(current_->way_out) != 0) return;
    watch.on = true;
    thread_body();
    watch.on = false;
    settle(*this);
  }
  [[noreturn]] void quit(int code) {
    lasting_error.store(code);
    failed_ = true;
    longjmp(current_->way_out, 1);
  }
  // Of the fiber that runs; nothing where that is the caller's.
  Range stack_range() const {
    return current_->memory ? Range{current_->memory, current_->memory + kStackBytes} : Range{};
  }
#endif
  const Fiber* current() const {
    return current_;
  }
  // One line: kernel, block, thread, and where.
  void say(const char* text, uint3 t, Where where) const {
    fflush(stdout);
    fprintf(
        stderr, "%s:%d: kernel %s: block: [%u,%u,%u], thread: [%u,%u,%u] %s\n", where.file ? where.file : "?",
        where.line, launch->name, block.x, block.y, block.z, t.x, t.y, t.z, text);
  }
  bool failed() const {
    return failed_;
  }

 private:
  struct Warp {
    unsigned exited = 0, first_step = 0, missed = 0;
    std::vector<Meeting*> meetings;
  };

  struct Missed {
    unsigned rank;  // of the thread that did not wait
    const char* what;
    Where where;
  };

  void drain() {
    const dim3 n = launch->block;
    while (next_ < count_ && !failed_) {
      const unsigned i = next_++;
      rank = i;
      thread = {i % n.x, i / n.x % n.y, i / n.x / n.y};
      current_->thread = thread;
      current_->rank = i;
      try {
        call_(body_, *this);
      } catch (const Ended&) {
      } catch (...) {
        if (!error) error = std::current_exception();
        failed_ = true;
      }
      watch.pause();
      ended();
    }
  }
  void ended() {
    --live_;
    auto& warp = warps_[rank / 32];
    warp.exited |= 1u << (rank % 32);
    for (auto* m : warp.meetings)
      if (!m->complete) complete(*m, warp.exited);
    if (arrived_ > 0 && arrived_ == live_) {
      check_barrier(*this, barrier_, barrier_.front()->waits);
      release();
    }
  }
  bool complete(Meeting& m, unsigned exited) {
    if (m.mask & ~(m.arrived | exited)) return false;
    check_meeting(*this, m, exited);
    m.complete = true;
    m.leaving = __builtin_popcount(m.arrived);
    watch.met(rank / 32, m.arrived);
    rewind();
    for (auto* f : m.waiting) ready_.push_back(f);
    return true;
  }
  // The highest thread goes on first. Programs let thread 0 write what the others have just read, without a barrier in
  // between: on a GPU it comes late enough, since it has more to do first.
  void release() {
    const auto higher = [](const Fiber* a, const Fiber* b) { return a->rank > b->rank; };
    if (!std::is_sorted(barrier_.begin(), barrier_.end(), higher)) std::sort(barrier_.begin(), barrier_.end(), higher);
    rewind();
    ready_.insert(ready_.end(), barrier_.begin(), barrier_.end());
    barrier_.clear();
    result_ = votes_;
    votes_ = 0;
    arrived_ = 0;
    ++epoch;
    watch.barrier();
  }
  // Groups are the lanes of a warp at one line.
  void release_converged() {
    std::map<std::tuple<unsigned, const char*, int>, unsigned> groups;
    const auto group = [&groups](const Fiber* f) -> unsigned& {
      return groups[{f->rank / 32, f->where.file, f->where.line}];
    };
    for (const auto* f : converging_) group(f) |= 1u << (f->rank % 32);
    for (auto* f : converging_) {
      f->lanes = group(f);
      ready_.push_back(f);
    }
    converging_.clear();
  }
  // Lanes of a warp that went different ways meet again: those that are furthest behind go on.
  void release_steps() {
    for (auto& warp : warps_) warp.first_step = ~0u;
    const auto first = [this](const Fiber* f) -> unsigned& { return warps_[f->rank / 32].first_step; };
    for (const auto* f : steps_) first(f) = std::min(first(f), f->place_of_step);
    const auto waiting = std::stable_partition(
        steps_.begin(), steps_.end(), [&](const Fiber* f) { return f->place_of_step == first(f); });
    for (auto i = steps_.begin(); i != waiting;) {
      const unsigned warp = (*i)->rank / 32;
      unsigned lanes = 0;
      for (; i != waiting && (*i)->rank / 32 == warp; ++i) {
        lanes |= 1u << ((*i)->rank % 32);
        ready_.push_back(*i);
      }
      watch.met(warp, lanes);
    }
    steps_.erase(steps_.begin(), waiting);
  }
  // Has the list of who is ready begin at its begin, where all have gone.
  void rewind() {
    if (head_ < ready_.size()) return;
    ready_.clear();
    head_ = 0;
  }
  // Has others run until this fiber is ready again.
  void away(const char* what) {
    Fiber* me = current_;
    me->waits = what;
    Fiber* to = pick();
    if (to != me) {
      current_ = to;
      change(me->stack, to->stack);
    }
    me->waits = nullptr;
    thread = me->thread;
    rank = me->rank;
    if (failed_ && what) throw Ended{};
  }
  Fiber* pick() {
    if (next_ < count_ && !failed_) return fresh();
    rewind();
    if (ready_.empty() && !steps_.empty()) release_steps();
    if (ready_.empty()) {
      if (running_ == 0 && main_idle_) return &main_;
      if (failed_ || converging_.empty()) stuck();
      release_converged();
      if (ready_.empty()) return &main_;
    }
    return ready_[head_++];
  }
  Fiber* fresh() {
    if (free_.empty()) {
      fibers_.push_back(std::make_unique<Fiber>());
      fibers_.back()->memory = new_stack();
      fibers_.back()->place = static_cast<unsigned>(fibers_.size());
      free_.push_back(fibers_.back().get());
    }
    Fiber* f = free_.back();
    free_.pop_back();
    prepare(f->stack, f->memory, f->place, &Worker::enter);
    ++running_;
    return f;
  }
  static void enter();
  void retire() {
    Fiber* me = current_;
    --running_;
    free_.push_back(me);
    current_ = pick();
    change(me->stack, current_->stack);
  }
  // Nobody can go on: a GPU would hang.
  void stuck() {
    if (!failed_) {
      const Fiber* first = nullptr;
      for (const auto& f : all()) first = f->waits && (!first || f->rank < first->rank) ? f : first;
      const Fiber* second = nullptr;
      for (const auto& f : all())
        if (first && f->waits && (f->where.line != first->where.line || f->waits != first->waits)) second = f;
      char text[256] = "waits for threads that never come";
      if (first && second)
        snprintf(
            text, sizeof text, "waits in %s for threads that do not come; thread [%u,%u,%u] waits in %s at line %d",
            first->waits, second->thread.x, second->thread.y, second->thread.z, second->waits, second->where.line);
      else if (first)
        snprintf(text, sizeof text, "waits in %s for threads that do not come", first->waits);
      if (first) say(text, first->thread, first->where);
      lasting_error.store(cudaErrorLaunchFailure);
      failed_ = true;
    }
    for (auto* f : barrier_) ready_.push_back(f);
    barrier_.clear();
    for (const auto& parked : parked_) ready_.push_back(parked.second);
    parked_.clear();
    arrived_ = 0;
    for (auto& warp : warps_)
      for (auto* m : warp.meetings)
        if (!m->complete) {
          m->complete = true;
          for (auto* f : m->waiting) ready_.push_back(f);
        }
  }
  std::vector<const Fiber*> all() const {
    std::vector<const Fiber*> found{&main_};
    for (const auto& f : fibers_) found.push_back(f.get());
    return found;
  }

  const void* body_ = nullptr;
  Body call_ = nullptr;
  unsigned count_ = 0, next_ = 0, live_ = 0, arrived_ = 0;
  int votes_ = 0, result_ = 0, running_ = 0;
  bool failed_ = false, main_idle_ = false;
  Fiber main_;
  Fiber* current_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_, barrier_, steps_, ready_, converging_;
  std::vector<std::pair<const void*, Fiber*>> parked_;
  size_t head_ = 0;
  unsigned grid_epoch_ = 0;
  std::vector<Warp> warps_;
  Missed missed_{0, nullptr, {nullptr, 0}};
  std::vector<std::unique_ptr<Meeting>> made_;
  std::vector<Meeting*> spare_;
};

// Of the block that this thread of the host runs. In the static block of thread-local memory, where an access is one
// instruction; of that there is little, so nothing else is.
#if defined(__linux__)
inline thread_local Worker* worker __attribute__((tls_model("initial-exec"))) = nullptr;
#else
inline thread_local Worker* worker = nullptr;
#endif

inline void Worker::enter() {
  worker->drain();
  worker->retire();
}

}  // namespace host_cuda
#pragma GCC visibility pop
