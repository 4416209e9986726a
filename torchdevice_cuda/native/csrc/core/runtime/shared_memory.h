// Memory that several processes map.
//
// On Linux a process has one unnamed object for all its ranges: a process that maps a range opens the creator's
// descriptor through /proc. The system frees the object once all its users have ended, however they ended. On other
// systems every range is a named object, which its creator unlinks when it frees the range or exits; a creator that a
// signal kills cannot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace hostdevice {

// A range of shared memory. Another process needs only these numbers to find it.
struct SharedRange {
  int64_t process;
  int64_t object;     // the creator's descriptor, if objects have no names
  uint64_t identity;  // distinguishes an object from a later one with the same number
  uint64_t offset;
  uint64_t size;
};

// Create a range of zeros, which takes memory only once it is touched. `size` is a multiple of the page size. Return
// nullopt if memory is short.
std::optional<SharedRange> create_shared_range(size_t size);
// Throw CUDA's out-of-memory error with the reason.
[[noreturn]] void throw_no_shared_memory();
// Map a range, replacing the mapping at `at` if that is given. Return null if the range is invalid or its creator
// ended.
char* map_shared_range(const SharedRange& range, char* at = nullptr);
void unmap_shared_range(const SharedRange& range, char* base);
// Free the memory; only the creator calls it.
void free_shared_range(const SharedRange& range);

}  // namespace hostdevice
