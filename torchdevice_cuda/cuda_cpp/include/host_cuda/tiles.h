// Tiles of a warp whose layout is ours: the elements of a tile in the order of its rows, so many for each lane.
#pragma once

#include "host_cuda/ptx_matrices.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

constexpr bool ptx_row = true, ptx_col = false;

// The rows and columns of a tile, by which one of a, b and c it is.
template <char WHICH, int M, int N, int K>
struct Tile {
  static constexpr int rows = WHICH == 'b' ? K : M, columns = WHICH == 'a' ? K : N, size = rows * columns;
  // Lanes beyond the tile have it again.
  static int index(int count, int i) {
    return (static_cast<int>(lane()) * count + i) % size;
  }
  // Where an element is in memory.
  static size_t offset(int index, size_t stride, bool is_row) {
    const auto row = static_cast<size_t>(index / columns), column = static_cast<size_t>(index % columns);
    if (!stride) stride = static_cast<size_t>(is_row ? columns : rows);
    return is_row ? row * stride + column : column * stride + row;
  }
};

// Calls `write` with each of the lane's sums.
template <int M, int N, int K, class A, class B, int CA, int CB, class Read, class Write>
void multiply_tiles(const A (&a)[CA], const B (&b)[CB], Where where, Read read, Write write) {
  struct Mine {
    A a[CA];
    B b[CB];
  } mine;
  std::memcpy(mine.a, a, sizeof mine.a);
  std::memcpy(mine.b, b, sizeof mine.b);
  constexpr int count = M * N / 32;
  use_together(mine, "wmma.mma.sync", where, [&](const Mine* all) {
    for (int i = 0; i < count; ++i) {
      const int at = Tile<'c', M, N, K>::index(count, i), row = at / N, column = at % N;
      auto sum = read(i);
      for (int k = 0; k < K; ++k) {
        const int of_a = row * K + k, of_b = k * N + column;
        sum = multiply_add(all[of_a / CA].a[of_a % CA], all[of_b / CB].b[of_b % CB], sum);
      }
      write(i, sum);
    }
  });
}

template <char WHICH, int M, int N, int K, class T, bool IS_ROW, class R, int REGISTERS>
void ptx_wmma_load_sync(R (&d)[REGISTERS], const void* p, unsigned stride) {
  using W = host_ptx::unsigned_of<T>;
  constexpr int each = sizeof(R) / sizeof(T), count = REGISTERS * each;
  for (int i = 0; i < count; ++i) {
    using At = Tile<WHICH, M, N, K>;
    W bits;
    host_ptx::load<W, 1, false>(static_cast<const W*>(p) + At::offset(At::index(count, i), stride, IS_ROW), &bits);
    if constexpr (each == 1)
      d[i] = host_ptx::bits_as<R>(bits);
    else
      d[i / each] = (i % each ? d[i / each] : 0) | static_cast<R>(bits) << (i % each * 8 * static_cast<int>(sizeof(T)));
  }
}
template <int M, int N, int K, class T, bool IS_ROW, class R, int REGISTERS>
void ptx_wmma_store_sync(void* p, const R (&a)[REGISTERS], unsigned stride) {
  using W = host_ptx::unsigned_of<T>;
  constexpr int each = sizeof(R) / sizeof(T), count = REGISTERS * each;
  for (int i = 0; i < count; ++i) {
    using At = Tile<'c', M, N, K>;
    W bits;
    if constexpr (each == 1)
      bits = host_ptx::bits_as<W>(a[i]);
    else
      bits = static_cast<W>(a[i / each] >> (i % each * 8 * static_cast<int>(sizeof(T))));
    host_ptx::store<W, 1, false>(static_cast<W*>(p) + At::offset(At::index(count, i), stride, IS_ROW), &bits);
  }
}
template <
    int M, int N, int K, class T, class A, class B, class C, bool SATURATED, class RD, class RA, class RB, class RC,
    int ND, int NA, int NB, int NC>
void ptx_wmma_mma_sync(RD (&d)[ND], const RA (&a)[NA], const RB (&b)[NB], const RC (&c)[NC], HOST_CUDA_HERE) {
  typename Elements<A>::Wide of_a[NA * Elements<A>::count];
  typename Elements<B>::Wide of_b[NB * Elements<B>::count];
  for (int i = 0; i < NA * Elements<A>::count; ++i) of_a[i] = Elements<A>::read(a, i);
  for (int i = 0; i < NB * Elements<B>::count; ++i) of_b[i] = Elements<B>::read(b, i);
  multiply_tiles<M, N, K>(
      of_a, of_b, {file, line}, [&](int i) { return Sums<C>::read(c, i); },
      [&](int i, auto sum) { Sums<T>::template write<SATURATED>(d, i, sum); });
}

}  // namespace host_cuda
#pragma GCC visibility pop
