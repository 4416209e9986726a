// CUDA's vector types.
#pragma once

#include <cstddef>
#include <cstdint>

#define HOST_CUDA_VECTOR(name, type, alignment)                                    \
  struct name##1 {                                                                 \
    type x;                                                                        \
  };                                                                               \
  struct alignas(2 * sizeof(type)) name##2 {                                       \
    type x, y;                                                                     \
  };                                                                               \
  struct name##3 {                                                                 \
    type x, y, z;                                                                  \
  };                                                                               \
  struct alignas(alignment) name##4 {                                              \
    type x, y, z, w;                                                               \
  };                                                                               \
  static inline constexpr name##1 make_##name##1(type x) {                         \
    return {x};                                                                    \
  }                                                                                \
  static inline constexpr name##2 make_##name##2(type x, type y) {                 \
    return {x, y};                                                                 \
  }                                                                                \
  static inline constexpr name##3 make_##name##3(type x, type y, type z) {         \
    return {x, y, z};                                                              \
  }                                                                                \
  static inline constexpr name##4 make_##name##4(type x, type y, type z, type w) { \
    return {x, y, z, w};                                                           \
  }

HOST_CUDA_VECTOR(char, signed char, 4)
HOST_CUDA_VECTOR(uchar, unsigned char, 4)
HOST_CUDA_VECTOR(short, short, 8)
HOST_CUDA_VECTOR(ushort, unsigned short, 8)
HOST_CUDA_VECTOR(int, int, 16)
HOST_CUDA_VECTOR(uint, unsigned int, 16)
HOST_CUDA_VECTOR(long, long, 16)
HOST_CUDA_VECTOR(ulong, unsigned long, 16)
HOST_CUDA_VECTOR(longlong, long long, 16)
HOST_CUDA_VECTOR(ulonglong, unsigned long long, 16)
HOST_CUDA_VECTOR(float, float, 16)
HOST_CUDA_VECTOR(double, double, 16)
#undef HOST_CUDA_VECTOR

struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const {
    return {x, y, z};
  }
};
