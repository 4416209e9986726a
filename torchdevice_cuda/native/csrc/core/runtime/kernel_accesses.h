// What a kernel of the program accesses: CUDA C++ and Triton kernels are not operators, and have no schema.
//
// The memory that a kernel changes is found by comparing it with a copy. A kernel is taken to read the first element
// of its other arguments, unless it begins to write elsewhere than at the first elements: it may read elsewhere, too.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hostdevice {

struct ObservedAccess;
struct StreamState;

// Set by a part that observes accesses.
extern std::atomic<bool> g_watches_kernels;

class KernelAccesses {
 public:
  // Call this before the kernel runs, with the pointers that it is given. A graph runs it repeatedly with the same
  // ones: where a run changes nothing, it is taken to write what an earlier one has changed.
  void begin(const std::vector<const void*>& pointers);
  // Return what it has accessed; this object holds the sizes.
  std::vector<ObservedAccess> end();
  // Report what it has accessed on a stream.
  void report(const StreamState& stream, const char* name);

 private:
  struct Memory {
    char* at;
    size_t bytes;
    std::vector<char> before;
    size_t first, end;  // the bytes that it changed last; none if they are equal
    int64_t size;
  };
  std::vector<Memory> memory_;
};

}  // namespace hostdevice
