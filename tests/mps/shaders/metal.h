// As much of Metal's language as inductor's kernels use, in C++: a kernel compiled with this computes in host memory
// what it would compute on an Apple GPU. A name that is missing here fails to compile, as a name that Metal lacks does
// there.
#pragma once
#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstdlib>
#include <thread>
#include <vector>

using uint = unsigned int;
using uchar = unsigned char;
#if defined(__aarch64__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
using half = __fp16;  // in C++ it has no other
#else
using half = _Float16;
#endif
struct float3 {
  float x, y, z;
  float3(float all = 0.0f) : x(all), y(all), z(all) {}
  float3(float x, float y, float z) : x(x), y(y), z(z) {}
};
struct uint2 {
  uint x, y;
};
struct uint3 {
  uint x, y, z;
};

#define kernel
#define device
#define constant const
// The groups of a grid run one after the other, the threads of a group side by side: what they share is static.
#define threadgroup static

constexpr uint kMaxThreads = 1024;
inline std::barrier<>* barrier_of_group = nullptr;

namespace metal {
using std::ceil, std::floor, std::isinf, std::isnan, std::max, std::min, std::trunc;
namespace precise {
using std::cos, std::exp, std::log, std::log2, std::pow, std::sin, std::sqrt, std::tanh;
inline float rsqrt(float x) {
  return 1.0f / std::sqrt(x);
}
}  // namespace precise
using namespace precise;
using std::abs;
}  // namespace metal

namespace c10::metal {
struct ErrorMessages {};
#define TORCH_REPORT_ERROR(...) std::abort()

template <typename T>
T max(T a, T b) {
  return a != a ? a : b != b ? b : std::max(a, b);
}
template <typename T>
T min(T a, T b) {
  return a != a ? a : b != b ? b : std::min(a, b);
}
template <typename A, typename B>
auto floor_divide(A a, B b) {
  return a / b;
}
inline float erf(float x) {
  return std::erf(x);
}

// Every thread of the group gives a value and gets what all of them come to.
template <typename T, typename Fold>
T over_group(T value, uint index, uint size, Fold fold) {
  static T values[kMaxThreads];
  values[index] = value;
  barrier_of_group->arrive_and_wait();
  T result = values[0];
  for (uint i = 1; i < size; ++i) {
    result = fold(result, values[i]);
  }
  barrier_of_group->arrive_and_wait();
  return result;
}

template <typename B, typename T>
T threadgroup_sum(B*, T value, uint index, uint size) {
  return over_group(value, index, size, [](T a, T b) { return T(a + b); });
}
template <typename B, typename T>
T threadgroup_prod(B*, T value, uint index, uint size) {
  return over_group(value, index, size, [](T a, T b) { return T(a * b); });
}
template <typename B, typename T>
T threadgroup_max(B*, T value, uint index, uint size) {
  return over_group(value, index, size, [](T a, T b) { return max(a, b); });
}
template <typename B, typename T>
T threadgroup_min(B*, T value, uint index, uint size) {
  return over_group(value, index, size, [](T a, T b) { return min(a, b); });
}

// Of each: mean, sum of squares around it, count.
inline float3 threadgroup_welford_combine(const float3* parts, uint size) {
  barrier_of_group->arrive_and_wait();
  double count = 0, sum = 0, squares = 0;
  for (uint i = 0; i < size; ++i) {
    count += parts[i].z;
    sum += double(parts[i].x) * parts[i].z;
  }
  double mean = sum / count;
  for (uint i = 0; i < size; ++i) {
    squares += parts[i].y + parts[i].z * (parts[i].x - mean) * (parts[i].x - mean);
  }
  barrier_of_group->arrive_and_wait();
  return {float(mean), float(squares), float(count)};
}
// Later releases of torch tell each thread its place, to combine in pairs.
inline float3 threadgroup_welford_combine(const float3* parts, uint, uint size) {
  return threadgroup_welford_combine(parts, size);
}
template <typename T>
float3 threadgroup_welford_reduce(const T* values, uint size) {
  barrier_of_group->arrive_and_wait();
  std::vector<float3> parts;
  for (uint i = 0; i < size; ++i) {
    parts.emplace_back(float(values[i]), 0.0f, 1.0f);
  }
  return threadgroup_welford_combine(parts.data(), size);
}

template <typename T>
struct Placed {
  T value;
  long place;
};
template <typename B, typename I, typename T>
long threadgroup_argmax(B*, I*, T value, long place, uint index, uint size) {
  auto later = [](Placed<T> a, Placed<T> b) { return b.value > a.value ? b : a; };
  return over_group(Placed<T>{value, place}, index, size, later).place;
}
}  // namespace c10::metal

// Calls `thread(position, position in its group)` for every thread of a grid.
template <typename Thread>
void for_grid(const uint* grid, const uint* group, Thread thread) {
  for (uint z = 0; z < grid[2]; z += group[2]) {
    for (uint y = 0; y < grid[1]; y += group[1]) {
      for (uint x = 0; x < grid[0]; x += group[0]) {
        uint count = group[0] * group[1] * group[2];
        std::barrier barrier(count);
        barrier_of_group = &barrier;
        std::vector<std::jthread> threads;
        for (uint i = 0; i < count; ++i) {
          uint3 at{i % group[0], i / group[0] % group[1], i / group[0] / group[1]};
          uint3 position{x + at.x, y + at.y, z + at.z};
          if (count == 1) {
            thread(position, at);
          } else {
            threads.emplace_back(thread, position, at);
          }
        }
      }
    }
  }
}
