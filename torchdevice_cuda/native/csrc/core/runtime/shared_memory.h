// Memory that several processes map, as the system offers it.
//
// On Linux a process has one object for all of it, without a name: whoever maps a piece of it opens the maker's
// descriptor through /proc. Nothing is left of it once its users have ended, however they ended. Elsewhere every piece
// is an object with a name, which its maker takes back when it drops the piece or ends; a maker that a signal ends
// cannot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace hostdevice {

// A stretch of shared memory. These numbers are all that another process needs to find it.
struct Piece {
  int64_t process;
  int64_t object;     // the maker's descriptor, where objects have no names
  uint64_t identity;  // tells an object from a later one with the same number
  uint64_t offset;
  uint64_t size;
};

// Zeros, none of which is used until it is touched. `size` is a multiple of a page's. None if there is no memory.
std::optional<Piece> make_piece(size_t size);
// CUDA's error, with the reason.
[[noreturn]] void throw_no_shared_memory();
// Maps it, in place of what is at `at` if that is given. Null if it is none, or its maker has ended.
char* map_piece(const Piece& piece, char* at = nullptr);
void unmap_piece(const Piece& piece, char* base);
// For its maker: the memory goes back to the system.
void drop_piece(const Piece& piece);

}  // namespace hostdevice
