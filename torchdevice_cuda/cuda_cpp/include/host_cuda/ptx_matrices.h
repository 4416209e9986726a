// Matrices of a warp: fragments as the PTX ISA lays them out (mma, ldmatrix), and as we do where it does not (wmma).
//
// Products are exact, and an element's products and what they are added to are summed in double. The sum is cut off to
// float, as an H200 does it, and rounded to half precision.
#pragma once

#include "host_cuda/addresses.h"
#include "host_cuda/device.h"
#include "host_ptx/convert.h"
#include "host_ptx/memory.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

// Calls `use` with what every lane has. No lane goes on before all have read it, and used it.
template <class T, class F>
void use_together(const T& mine, const char* what, Where where, F use) {
  T all[32];
  in_warp(~0u, reinterpret_cast<uint64_t>(&mine), what, where, [&](const Lanes& m) {
    for (int i = 0; i < 32; ++i) all[i] = m.arrived >> i & 1 ? *reinterpret_cast<const T*>(m.values[i]) : mine;
    return 0;
  });
  use(all);
  in_warp(~0u, 0, what, where, [](const Lanes&) { return 0; });
}

// What elements are computed with, and how many are in a register.
template <class T>
struct Elements {
  using Wide = float;
  static constexpr int count = 4 / sizeof(T);
  static float read(const uint32_t* registers, int i) {
    using W = host_ptx::unsigned_of<T>;
    const auto bits = static_cast<W>(registers[i / count] >> (i % count * 8 * static_cast<int>(sizeof(T))));
    return static_cast<float>(host_ptx::decode(host_ptx::bits_as<T>(bits)));
  }
};
template <>
struct Elements<double> {
  using Wide = double;
  static constexpr int count = 1;
  static double read(const double* registers, int i) {
    return registers[i];
  }
};
template <class T>
struct Bytes {
  using Wide = int32_t;
  static constexpr int count = 4;
  static int32_t read(const uint32_t* registers, int i) {
    return host_ptx::lane_of<T>(registers[i / 4], i % 4, 8);
  }
};
template <>
struct Elements<int8_t> : Bytes<int8_t> {};
template <>
struct Elements<uint8_t> : Bytes<uint8_t> {};

template <class T>
T cut_off(double sum) {
  if constexpr (std::is_same<T, float>::value)
    return host_ptx::encode<float>(sum, host_ptx::RZ);
  else
    return sum;
}
// A sum, from the element that it begins with to the one that it becomes.
template <class T>
struct Sums {
  static constexpr int count = 1;
  static double read(const T* registers, int i) {
    return registers[i];
  }
  template <bool SATURATED>
  static void write(T* registers, int i, double sum) {
    registers[i] = cut_off<T>(sum);
  }
};
template <>
struct Sums<int32_t> {
  static constexpr int count = 1;
  static int64_t read(const int32_t* registers, int i) {
    return registers[i];
  }
  template <bool SATURATED>
  static void write(int32_t* registers, int i, int64_t sum) {
    registers[i] = SATURATED ? host_ptx::limit(sum) : static_cast<int32_t>(sum);
  }
};
template <>
struct Sums<host_ptx::f16> {
  static constexpr int count = 2;
  static double read(const uint32_t* registers, int i) {
    return host_ptx::decode(host_ptx::f16{static_cast<uint16_t>(registers[i / 2] >> (i % 2 * 16))});
  }
  template <bool SATURATED>
  static void write(uint32_t* registers, int i, double sum) {
    const uint32_t bits = host_ptx::encode<host_ptx::f16>(sum, host_ptx::RN).bits;
    registers[i / 2] = i % 2 ? (registers[i / 2] & 0xffffu) | bits << 16 : bits;
  }
};

template <class A, class B, class S>
S multiply_add(A a, B b, S sum) {
  if constexpr (std::is_same<A, double>::value)
    return __builtin_fma(a, b, sum);
  else
    return sum + static_cast<S>(a) * static_cast<S>(b);
}

// d = a x b + c. A lane's group is its row of c and its column of b; its place in the group, columns of a and c.
template <int M, int N, int K, class S, class A, class B, bool SATURATED, class RD, class RA, class RC>
void ptx_mma_sync(RD* d, const RA* a, const RA* b, const RC* c, HOST_CUDA_HERE) {
  using EA = Elements<A>;
  using EB = Elements<B>;
  constexpr int E = EA::count, NA = M * K / 32, NB = K * N / 32, NC = M * N / 32;
  struct Mine {
    typename EA::Wide a[NA];
    typename EB::Wide b[NB];
  } mine;
  for (int i = 0; i < NA; ++i) mine.a[i] = EA::read(a, i);
  for (int i = 0; i < NB; ++i) mine.b[i] = EB::read(b, i);
  use_together(mine, "mma.sync", {file, line}, [&](const Mine* all) {
    const int group = static_cast<int>(lane() / 4), place = static_cast<int>(lane() % 4);
    for (int i = 0; i < NC; ++i) {
      const int row_of_registers = i / 2, column = place * 2 + i % 2;
      auto sum = Sums<S>::read(c, i);
      for (int k = 0; k < K; ++k) {
        const int from = k / E % 4, far = k / (4 * E);
        const Mine& of_a = all[group * 4 + from];
        const Mine& of_b = all[column * 4 + from];
        sum = multiply_add(of_a.a[(row_of_registers + (M / 8) * far) * E + k % E], of_b.b[far * E + k % E], sum);
      }
      Sums<S>::template write<SATURATED>(d, i, sum);
    }
  });
}

// Rows of eight elements of 16 bits, whose addresses eight lanes have.
template <int COUNT, bool TRANSPOSED>
void ptx_ldmatrix_sync(uint32_t* d, uint64_t address, HOST_CUDA_HERE) {
  use_together(address, "ldmatrix.sync", {file, line}, [&](const uint64_t* all) {
    const unsigned group = lane() / 4, place = lane() % 4;
    for (unsigned i = 0; i < COUNT; ++i) {
      uint32_t halves[2];
      for (unsigned j = 0; j < 2; ++j) {
        const unsigned row = TRANSPOSED ? place * 2 + j : group, column = TRANSPOSED ? group : place * 2 + j;
        host_ptx::load<uint16_t, 1, false>(find_shared<uint16_t>(all[i * 8 + row]) + column, halves + j);
      }
      d[i] = halves[0] | halves[1] << 16;
    }
  });
}
template <int COUNT, bool TRANSPOSED>
void ptx_stmatrix_sync(uint64_t address, const uint32_t* b, HOST_CUDA_HERE) {
  use_together(address, "stmatrix.sync", {file, line}, [&](const uint64_t* all) {
    const unsigned group = lane() / 4, place = lane() % 4;
    for (unsigned i = 0; i < COUNT; ++i)
      for (unsigned j = 0; j < 2; ++j) {
        const unsigned row = TRANSPOSED ? place * 2 + j : group, column = TRANSPOSED ? group : place * 2 + j;
        const auto half = static_cast<uint16_t>(b[i] >> (j * 16));
        host_ptx::store<uint16_t, 1, false>(find_shared<uint16_t>(all[i * 8 + row]) + column, &half);
      }
  });
}
inline uint32_t ptx_movmatrix_sync(uint32_t a, HOST_CUDA_HERE) {
  uint32_t d = 0;
  use_together(a, "movmatrix.sync", {file, line}, [&](const uint32_t* all) {
    const unsigned group = lane() / 4, place = lane() % 4;
    for (unsigned j = 0; j < 2; ++j)
      d |= (all[(place * 2 + j) * 4 + group / 2] >> (group % 2 * 16) & 0xffff) << (j * 16);
  });
  return d;
}

}  // namespace host_cuda
#pragma GCC visibility pop
