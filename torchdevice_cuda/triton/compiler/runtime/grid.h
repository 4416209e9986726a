// A launch: the programs of a grid, on several threads.
#pragma once
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "memory.h"

constexpr int64_t WAITS_AT_MOST_NS = 10'000'000'000, ALONE_NS = 50'000;

TTC_INLINE int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

// A loop that waits for another program: it ends the launch where no program has ended for long.
struct Waiting {
  int64_t rounds = 0, since = 0, ended = -1;
  TTC_COLD void look(Program& program, int site) {
    if (__atomic_load_n(&program.launch.failure, __ATOMIC_RELAXED)) throw Ended();
    const int64_t ended_now = __atomic_load_n(&program.launch.ended, __ATOMIC_RELAXED), time = now();
    if (ended_now != ended)
      ended = ended_now, since = time;
    else if (time - since > WAITS_AT_MOST_NS)
      fail(program, NO_PROGRESS, site, 0);
  }
  TTC_METHOD void again(Program& program, int site) {
    if (__builtin_expect((++rounds & 0xffff) == 0, 0)) look(program, site);
  }
};

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

typedef void (*Run)(Program&, const int64_t*);

struct Worker {
  Launch* launch;
  Run run;
  int sites;
  pthread_t thread;
};

// Programs that a thread takes at once. They run in the order of their numbers, so that one may wait for another
// before.
constexpr int64_t MOST_AT_ONCE = 32;

// Run programs until none is left, or until some time has passed.
static void run_programs(Worker& worker, int64_t until) {
  Launch& launch = *worker.launch;
  const int64_t x = launch.grid[0], y = launch.grid[1], total = x * y * launch.grid[2];
  const int64_t share = total / (launch.threads * 16);
  const int64_t at_once = share < 1 ? 1 : share > MOST_AT_ONCE ? MOST_AT_ONCE : share;
  Range* seen = (Range*)calloc(worker.sites + 1, sizeof(Range));
  for (bool is_over = false; !is_over;) {
    const int64_t first = __atomic_fetch_add(&launch.started, at_once, __ATOMIC_RELAXED);
    if (first >= total) break;
    Program program{launch, seen, {(int32_t)(first % x), (int32_t)(first / x % y), (int32_t)(first / x / y)}};
    const int64_t end = first + at_once < total ? first + at_once : total;
    for (int64_t number = first; number < end; number++) {
      if (__atomic_load_n(&launch.failure, __ATOMIC_RELAXED)) {
        is_over = true;
        break;
      }
      try {
        worker.run(program, launch.arguments);
      } catch (const Ended&) {
      }
      __atomic_fetch_add(&launch.ended, 1, __ATOMIC_RELAXED);
      if (++program.index[0] == x) {
        program.index[0] = 0;
        if (++program.index[1] == y) program.index[1] = 0, program.index[2]++;
      }
    }
    is_over = is_over || (until && now() > until);
  }
  free(seen);
}
static void* begin_worker(void* worker) {
  run_programs(*(Worker*)worker, 0);
  return nullptr;
}

// Small grids run on the calling thread alone: a thread costs more than they do. `stack` bytes are a program's tiles.
static int run_grid(Launch* launch, Run run, int sites, size_t stack) {
  const int64_t total = (int64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
  const bool fits = stack <= (256 << 10);
  Worker own{launch, run, sites, {}};
  int threads = launch->threads < total ? launch->threads : (int)total;
  if (fits) run_programs(own, threads > 1 ? now() + ALONE_NS : 0);
  const int64_t rest = total - __atomic_load_n(&launch->started, __ATOMIC_RELAXED);
  if (rest <= 0 || launch->failure) return launch->failure;
  if (rest < threads) threads = (int)rest;
  Worker* workers = (Worker*)calloc(threads, sizeof(Worker));
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, (stack + (1 << 20)) & ~(size_t)0xffff);
  int begun = 0;
  for (int n = fits ? 1 : 0; n < threads; n++) {
    workers[begun] = own;
    if (pthread_create(&workers[begun].thread, &attributes, begin_worker, &workers[begun]) == 0) begun++;
  }
  if (fits) run_programs(own, 0);
  for (int n = 0; n < begun; n++) pthread_join(workers[n].thread, nullptr);
  pthread_attr_destroy(&attributes);
  free(workers);
  // No thread could be created with so large a stack.
  return begun || fits ? launch->failure : -1;
}
