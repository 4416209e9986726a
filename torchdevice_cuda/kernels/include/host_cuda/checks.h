// What the compiler calls where an index leaves an array (-fsanitize=bounds), in checked builds.
#pragma once

#include "host_cuda/block.h"

struct host_cuda_index_error {
  const char* file;
  unsigned line, column;
};
extern "C" __attribute__((weak, visibility("hidden"))) void __ubsan_handle_out_of_bounds(
    host_cuda_index_error* where, unsigned long index) {
  const host_cuda::Where at{where->file, static_cast<int>(where->line)};
  if (host_cuda::worker)
    host_cuda::worker->fail(
        cudaErrorIllegalAddress, at, "index %ld is out of the array's bounds", static_cast<long>(index));
}
