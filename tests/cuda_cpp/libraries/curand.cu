// What programs use of cuRAND in kernels.
#include <curand_kernel.h>

#include "printing.h"

template <class State>
__global__ void bits(unsigned* out, unsigned long long seed, unsigned long long offset) {
  State state;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  curand_init(seed, static_cast<unsigned long long>(i), offset, &state);
  for (int k = 0; k < 6; ++k) out[i * 6 + k] = curand(&state);
}
template <class State>
__global__ void floats(float* out, unsigned long long seed) {
  State state;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  curand_init(seed, static_cast<unsigned long long>(i), 0, &state);
  float* mine = out + i * 8;
  mine[0] = curand_uniform(&state);
  mine[1] = curand_uniform(&state);
  skipahead(7, &state);
  mine[2] = curand_uniform(&state);
  skipahead_sequence(3, &state);
  mine[3] = curand_uniform(&state);
  mine[4] = mine[5] = mine[6] = mine[7] = curand_uniform(&state);
}
template <class State>
__global__ void normals(float* out, unsigned long long seed) {
  State state;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  curand_init(seed, static_cast<unsigned long long>(i), 0, &state);
  float* mine = out + i * 8;
  mine[0] = curand_normal(&state);
  mine[1] = curand_normal(&state);
  mine[2] = curand_normal(&state);
  const float2 two = curand_normal2(&state);
  mine[3] = two.x;
  mine[4] = two.y;
  mine[5] = curand_log_normal(&state, 0.5f, 0.25f);
  mine[6] = curand_uniform(&state);
  mine[7] = curand_normal(&state);
}
template <class State>
__global__ void doubles(double* out, unsigned long long seed) {
  State state;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  curand_init(seed, static_cast<unsigned long long>(i), 0, &state);
  double* mine = out + i * 4;
  mine[0] = curand_uniform_double(&state);
  mine[1] = curand_uniform_double(&state);
  mine[2] = curand_normal_double(&state);
  mine[3] = curand_normal_double(&state);
}
__global__ void fours(unsigned* out, float* uniform, float* normal, double* two) {
  curandStatePhilox4_32_10_t state;
  const int i = threadIdx.x;
  curand_init(99, i, 4 * i + 1, &state);
  const uint4 a = curand4(&state);
  out[i * 4] = a.x, out[i * 4 + 1] = a.y, out[i * 4 + 2] = a.z, out[i * 4 + 3] = a.w;
  const float4 u = curand_uniform4(&state);
  uniform[i * 4] = u.x, uniform[i * 4 + 1] = u.y, uniform[i * 4 + 2] = u.z, uniform[i * 4 + 3] = u.w;
  const float4 n = curand_normal4(&state);
  normal[i * 4] = n.x, normal[i * 4 + 1] = n.y, normal[i * 4 + 2] = n.z, normal[i * 4 + 3] = n.w;
  const double2 d = curand_uniform2_double(&state);
  two[i * 2] = d.x, two[i * 2 + 1] = d.y;
}
template <class State>
static void random_numbers(const char* name) {
  char line[64];
  for (unsigned long long seed : {0ull, 1234ull, 0x123456789abcdefull})
    for (unsigned long long offset : {0ull, 5ull, 1000003ull}) {
      Buffer<unsigned> out(12 * 6);
      bits<State><<<3, 4>>>(out.p, seed, offset);
      snprintf(line, sizeof line, "%s bits %llu %llu", name, seed, offset);
      print(line, out.home());
    }
  Buffer<float> f(64), g(64);
  Buffer<double> d(32);
  floats<State><<<2, 4>>>(f.p, 42);
  snprintf(line, sizeof line, "%s uniform", name);
  print(line, f.home());
  normals<State><<<2, 4>>>(g.p, 42);
  snprintf(line, sizeof line, "%s normal", name);
  print(line, g.home());
  doubles<State><<<2, 4>>>(d.p, 42);
  snprintf(line, sizeof line, "%s double", name);
  print(line, d.home());
}
static void philox_fours() {
  Buffer<unsigned> a(32);
  Buffer<float> u(32), n(32);
  Buffer<double> d(16);
  fours<<<1, 8>>>(a.p, u.p, n.p, d.p);
  print("philox curand4", a.home());
  print("philox uniform4", u.home());
  print("philox normal4", n.home());
  print("philox uniform2_double", d.home());
}

int main() {
  random_numbers<curandStatePhilox4_32_10_t>("philox");
  random_numbers<curandStateXORWOW_t>("xorwow");
  philox_fours();
  CHECK(cudaDeviceSynchronize());
}
