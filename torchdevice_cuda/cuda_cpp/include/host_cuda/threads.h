// What a launch is, and what is known of one thread and of lanes that meet.
#pragma once

#include <cstdint>
#include <vector>

#include "host_cuda/fiber.h"
#include "host_cuda/grid.h"
#include "host_cuda/types.h"
#ifdef HOST_CUDA_CHECKED
#include <csetjmp>
#endif

constexpr int warpSize = 32;

#pragma GCC visibility push(hidden)
namespace host_cuda {

struct Launch {
  const char* name;
  dim3 grid, block;
  size_t shared;  // bytes that the launch asked for
  void* stream;
  GridBarrier* grid_barrier = nullptr;  // of a cooperative launch of several blocks
};

struct Where {
  const char* file;
  int line;
};

struct Extent {
  char* begin;
  size_t bytes;
};

struct Ended {};  // what ends a thread whose kernel has failed

struct Fiber;

// What the lanes of a warp have given.
struct Lanes {
  unsigned arrived = 0;
  uint64_t values[32];
};

// Lanes of a warp that exchange something: those in `mask`.
struct Meeting : Lanes {
  unsigned mask = 0;
  int leaving = 0;  // who has still to read
  bool complete = false;
  std::vector<Fiber*> waiting;
};

struct Fiber {
  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber() {
    if (memory) free_stack(memory);
  }
  Stack stack;
  char* memory = nullptr;
  unsigned place = 0;  // among the stacks
  uint3 thread{0, 0, 0};
  unsigned rank = 0;           // of the thread in its block
  unsigned place_of_step = 0;  // in the source, where it waits to be in step
  Where where{nullptr, 0};
  const char* waits = nullptr;  // for what, or null
  unsigned lanes = 0;           // of its warp that converged with it
#ifdef HOST_CUDA_CHECKED
  jmp_buf way_out;  // of the thread that it runs
#endif
};

}  // namespace host_cuda
#pragma GCC visibility pop
