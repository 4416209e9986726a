// A launch: the programs of a grid, on several threads.
#pragma once
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "memory.h"

constexpr int64_t MILLISECOND = 1'000'000;
constexpr int64_t WAITS_AT_MOST_NS = 10'000 * MILLISECOND, ALONE_NS = 50'000, SIGNALS_NS = 100 * MILLISECOND;
constexpr int64_t NEVER = INT64_MAX;
// Programs that wait for others may run at once on so many threads.
constexpr int MOST_WAITING = 1024;

TTC_INLINE int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

typedef void (*Run)(Program&, const int64_t*);

struct Grid {
  Launch* launch;
  Run run;
  int sites;
  // Whether programs wait for others: each is started before those behind it are.
  bool waits;
  int64_t total;
  pthread_attr_t attributes;
  pthread_mutex_t mutex;
  pthread_cond_t is_over;
  // Threads that were created, and those that have ended.
  int created, ended;
  // When the calling thread has looked for signals, and when a thread was added.
  int64_t looked, added;
#ifdef TTC_SANITIZED
  std::vector<uint32_t> order;
#endif
#ifdef TTC_COUNTED
  host_cuda::BlockSample sample;
  std::vector<uint64_t> order;
#endif
};

#ifdef TTC_SANITIZED
// Programs run one after the other, unless one waits for another, in an order that the seed chooses.
static std::mutex g_sanitized;
static void begin_grid(Grid& grid) {
  g_sanitized.lock();
  host_sanitizer::Races::get().begin_launch();
  if (!grid.waits) {
    grid.launch->threads = 1;
    grid.order = host_sanitizer::choose_order(grid.total);
  }
}
static void end_grid(Grid&) {
  g_sanitized.unlock();
}
static void begin_program(Program& program, Grid& grid, int64_t number) {
  const int64_t x = grid.launch->grid[0], y = grid.launch->grid[1];
  if (!grid.order.empty()) {
    number = grid.order[number];
    program.index[0] = (int32_t)(number % x);
    program.index[1] = (int32_t)(number / x % y), program.index[2] = (int32_t)(number / x / y);
  }
  auto& races = host_sanitizer::Races::get();
  const std::lock_guard<std::mutex> lock(races.mutex);
  races.begin_block(program.block, (uint32_t)number, 0);
}
#elif defined(TTC_COUNTED)
// A sample of the programs runs, one after the other.
static void begin_grid(Grid& grid) {
  grid.sample.begin(grid.total);
  grid.order = grid.sample.list_blocks();
  grid.total = grid.order.size();
  grid.launch->threads = 1;
}
static void end_grid(Grid& grid) {
  const auto sum = grid.sample.sum();
  const double counts[] = {sum.traffic, sum.memory, sum.footprint, sum.operations, sum.products, sum.scattered};
  std::copy(std::begin(counts), std::end(counts), grid.launch->counts);
}
static void begin_program(Program& program, Grid& grid, int64_t number) {
  const int64_t x = grid.launch->grid[0], y = grid.launch->grid[1], block = grid.order[number];
  program.index[0] = (int32_t)(block % x);
  program.index[1] = (int32_t)(block / x % y), program.index[2] = (int32_t)(block / x / y);
  program.counts = grid.sample.find(block);
}
#else
TTC_INLINE void begin_grid(Grid&) {}
TTC_INLINE void end_grid(Grid&) {}
TTC_INLINE void begin_program(Program&, Grid&, int64_t) {}
#endif

// Run Python's handlers of signals, on the calling thread. One that raises ends the launch: Python raises it then.
TTC_COLD static void handle_signals(Grid& grid) {
  Launch& launch = *grid.launch;
  grid.looked = now();
  if (!launch.signals || launch.error[0]) return;
  const Signals& python = *launch.signals;
  const int state = python.acquire();
  if (python.handle() < 0) {
    python.fetch(&launch.error[0], &launch.error[1], &launch.error[2]);
    int32_t none = NO_FAILURE;
    __atomic_compare_exchange_n(&launch.failure, &none, INTERRUPTED, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
  }
  python.release(state);
}
TTC_COLD static void look_around(Program& program) {
  if (program.is_caller && now() - program.grid.looked > SIGNALS_NS) handle_signals(program.grid);
  if (__atomic_load_n(&program.launch.failure, __ATOMIC_RELAXED)) throw Ended();
}
// A long loop: it ends where the launch has failed or was interrupted.
struct Looping {
  uint32_t rounds = 0;
  TTC_METHOD void again(Program& program) {
    if (__builtin_expect((++rounds & 0x3f) == 0, 0)) look_around(program);
  }
};

static void add_thread(Grid& grid);

// A loop that waits for another program: it starts those that have not started, and ends the launch where no program
// has ended for long.
struct Waiting {
  int64_t rounds = 0, mask = 0xffff, since = 0, ended = -1;
  TTC_COLD void look(Program& program, int site) {
    Grid& grid = program.grid;
    look_around(program);
    const int64_t ended_now = __atomic_load_n(&program.launch.ended, __ATOMIC_RELAXED), time = now();
    if (ended_now != ended) {
      ended = ended_now, since = time, mask = 0xff;
    } else if (time - since > WAITS_AT_MOST_NS) {
      fail(program, NO_PROGRESS, site, 0);
    } else if (
        time - since > MILLISECOND && time - __atomic_load_n(&grid.added, __ATOMIC_RELAXED) > MILLISECOND &&
        __atomic_load_n(&program.launch.started, __ATOMIC_RELAXED) < grid.total) {
      __atomic_store_n(&grid.added, time, __ATOMIC_RELAXED);
      add_thread(grid);
    }
    sched_yield();
  }
  TTC_METHOD void again(Program& program, int site) {
    if (__builtin_expect((++rounds & mask) == 0, 0)) look(program, site);
  }
};

TTC_INLINE int64_t find_deadline(int64_t timeout) {
  return timeout < 0 || timeout > NEVER / 2 ? NEVER : now() + timeout;
}
template <class T>
TTC_INLINE bool wait_for(Program& program, int site, const T* address, T wanted, int64_t deadline) {
  Waiting waiting;
  while (!is_same(read_acquired(address), wanted)) {
    if (deadline != NEVER && now() >= deadline) return false;
    waiting.again(program, site);
  }
  return true;
}

struct Print {
  Program& program;
  char text[512];
  int length = 0;
  __attribute__((format(printf, 2, 3))) void add(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int added = vsnprintf(text + length, sizeof text - length, format, arguments);
    va_end(arguments);
    length = added < (int)sizeof text - length ? length + added : (int)sizeof text - 1;
  }
  void end() {
    program.launch.write(text, length);
  }
};

// Programs that a thread takes at once. They run in the order of their numbers, so that one may wait for another
// before.
constexpr int64_t MOST_AT_ONCE = 32;

// Run programs until none is left, or until some time has passed.
static void run_programs(Grid& grid, bool is_caller, int64_t until) {
  Launch& launch = *grid.launch;
  const int64_t x = launch.grid[0], y = launch.grid[1];
  const int64_t share = grid.waits ? 1 : grid.total / (launch.threads * 16);
  const int64_t at_once = share < 1 ? 1 : share > MOST_AT_ONCE ? MOST_AT_ONCE : share;
  Range* seen = (Range*)calloc(grid.sites + 1, sizeof(Range));
  for (bool is_over = false; !is_over;) {
    const int64_t first = __atomic_fetch_add(&launch.started, at_once, __ATOMIC_RELAXED);
    if (first >= grid.total) break;
    Program program{
        launch, grid, seen, is_caller, {(int32_t)(first % x), (int32_t)(first / x % y), (int32_t)(first / x / y)}};
    const int64_t end = first + at_once < grid.total ? first + at_once : grid.total;
    for (int64_t number = first; number < end; number++) {
      if (__atomic_load_n(&launch.failure, __ATOMIC_RELAXED)) {
        is_over = true;
        break;
      }
      begin_program(program, grid, number);
      try {
        grid.run(program, launch.arguments);
      } catch (const Ended&) {
      }
      __atomic_fetch_add(&launch.ended, 1, __ATOMIC_RELAXED);
      if (++program.index[0] == x) {
        program.index[0] = 0;
        if (++program.index[1] == y) program.index[1] = 0, program.index[2]++;
      }
    }
    if (is_caller) {
      const int64_t time = now();
      if (time - grid.looked > SIGNALS_NS) handle_signals(grid);
      is_over = is_over || time > until;
    }
  }
  free(seen);
}
static void* begin_thread(void* given) {
  Grid& grid = *(Grid*)given;
  run_programs(grid, false, NEVER);
  pthread_mutex_lock(&grid.mutex);
  grid.ended++;
  pthread_cond_signal(&grid.is_over);
  pthread_mutex_unlock(&grid.mutex);
  return nullptr;
}
static void add_thread(Grid& grid) {
  pthread_t thread;
  pthread_mutex_lock(&grid.mutex);
  if (grid.created < MOST_WAITING && pthread_create(&thread, &grid.attributes, begin_thread, &grid) == 0)
    grid.created++;
  pthread_mutex_unlock(&grid.mutex);
}
// Wait until all threads have ended, and handle signals meanwhile.
static void join_threads(Grid& grid) {
  pthread_mutex_lock(&grid.mutex);
  while (grid.ended < grid.created) {
    timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_nsec += SIGNALS_NS;
    if (time.tv_nsec >= 1'000'000'000) time.tv_nsec -= 1'000'000'000, time.tv_sec++;
    pthread_cond_timedwait(&grid.is_over, &grid.mutex, &time);
    if (now() - grid.looked > SIGNALS_NS) {
      pthread_mutex_unlock(&grid.mutex);
      handle_signals(grid);
      pthread_mutex_lock(&grid.mutex);
    }
  }
  pthread_mutex_unlock(&grid.mutex);
}

// Small grids run on the calling thread alone: a thread costs more than they do. `stack` bytes are a program's tiles.
static int run_grid(Launch* launch, Run run, int sites, size_t stack, bool waits) {
  Grid grid{launch, run, sites, waits, (int64_t)launch->grid[0] * launch->grid[1] * launch->grid[2]};
  const bool fits = stack <= (256 << 10);
  begin_grid(grid);
  grid.looked = now();
  pthread_mutex_init(&grid.mutex, nullptr);
  pthread_cond_init(&grid.is_over, nullptr);
  pthread_attr_init(&grid.attributes);
  pthread_attr_setstacksize(&grid.attributes, (stack + (1 << 20)) & ~(size_t)0xffff);
  pthread_attr_setdetachstate(&grid.attributes, PTHREAD_CREATE_DETACHED);
  int threads = launch->threads < grid.total ? launch->threads : (int)grid.total;
  if (fits) run_programs(grid, true, threads > 1 ? grid.looked + ALONE_NS : NEVER);
  const int64_t rest = grid.total - __atomic_load_n(&launch->started, __ATOMIC_RELAXED);
  if (rest > 0 && !launch->failure) {
    if (rest < threads) threads = (int)rest;
    for (int n = fits ? 1 : 0; n < threads; n++) add_thread(grid);
    if (fits) run_programs(grid, true, NEVER);
  }
  join_threads(grid);
  end_grid(grid);
  pthread_attr_destroy(&grid.attributes);
  pthread_cond_destroy(&grid.is_over);
  pthread_mutex_destroy(&grid.mutex);
  // No thread could be created with so large a stack.
  return grid.created || fits ? launch->failure : -1;
}
