// The same file, compiled by nvcc for a GPU and by ours for the host, prints the same lines: a name and what was
// computed, floating-point numbers as their bits.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <vector>

static void check(cudaError_t error, int line) {
  if (error != cudaSuccess) printf("line %d: %s\n", line, cudaGetErrorString(error));
}
#define CHECK(call) check(call, __LINE__)

static void print_one(int v) {
  printf(" %d", v);
}
static void print_one(unsigned v) {
  printf(" %u", v);
}
static void print_one(long long v) {
  printf(" %lld", v);
}
static void print_one(float v) {
  unsigned bits;
  memcpy(&bits, &v, 4);
  printf(" f%08x", bits);
}
static void print_one(double v) {
  unsigned long long bits;
  memcpy(&bits, &v, 8);
  printf(" d%016llx", bits);
}
template <class T>
static void print(const char* name, const std::vector<T>& values) {
  printf("%s:", name);
  for (const T& v : values) print_one(v);
  printf("\n");
}
template <class T>
static std::vector<T> numbers(int n, unsigned seed, int below) {
  std::vector<T> made(n);
  unsigned state = seed * 7919;
  for (int i = 0; i < n; ++i) {
    state = (state * 1103515245u + 12345u) & 0x7fffffffu;
    made[i] = static_cast<T>(static_cast<int>((state >> 8) % below) - below / 2);
  }
  return made;
}
static std::vector<float> fractions(int n, unsigned seed) {
  std::vector<float> made = numbers<float>(n, seed, 200001);
  for (float& v : made) v /= 3.0f;
  return made;
}
// Memory of the device, with what is in it.
template <class T>
struct Buffer {
  T* p = nullptr;
  size_t n;
  explicit Buffer(size_t n) : n(n) {
    CHECK(cudaMalloc(&p, n * sizeof(T)));
    CHECK(cudaMemset(p, 0, n * sizeof(T)));
  }
  explicit Buffer(const std::vector<T>& from) : Buffer(from.size()) {
    CHECK(cudaMemcpy(p, from.data(), n * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~Buffer() {
    cudaFree(p);
  }
  std::vector<T> home() const {
    std::vector<T> to(n);
    CHECK(cudaMemcpy(to.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
    return to;
  }
};
