// Memory that several processes map.
//
// On Linux a process has one unnamed object for all its pieces: a process that maps a piece opens the creator's
// descriptor through /proc. The system frees the object once all its users have ended, however they ended. On other
// systems every piece is a named object, which its creator unlinks when it drops the piece or exits; a creator that a
// signal kills cannot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace hostdevice {

// A range of shared memory. Another process needs only these numbers to find it.
struct Piece {
  int64_t process;
  int64_t object;     // the creator's descriptor, if objects have no names
  uint64_t identity;  // distinguishes an object from a later one with the same number
  uint64_t offset;
  uint64_t size;
};

// Create a piece of zeros, which takes memory only once it is touched. `size` is a multiple of the page size. Return
// nullopt if memory is short.
std::optional<Piece> make_piece(size_t size);
// Throw CUDA's out-of-memory error with the reason.
[[noreturn]] void throw_no_shared_memory();
// Map a piece, replacing the mapping at `at` if that is given. Return null if the piece is invalid or its creator
// ended.
char* map_piece(const Piece& piece, char* at = nullptr);
void unmap_piece(const Piece& piece, char* base);
// Free the memory; only the creator calls it.
void drop_piece(const Piece& piece);

}  // namespace hostdevice
