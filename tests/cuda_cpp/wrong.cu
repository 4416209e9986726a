#include <cstdio>  // Kernels that are wrong, each in one way. What compute-sanitizer says of them: tests/data/sanitizer-h200.json
#include <cstdlib>
#include <cuda_runtime.h>
extern "C" __global__ void read_past(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i % n] = in[i];
}
extern "C" __global__ void write_past(int* out) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}
extern "C" __global__ void write_double(double* out) {
  out[threadIdx.x + 3] = 1;
}
extern "C" __global__ void misaligned(char* out) {
  *(int*)(out + 1) = 1;
}
extern "C" __global__ void null_read(int* p, int* out) { out[0] = p[threadIdx.x]; }
extern "C" __global__ void atomic_past(int* p, int n) { atomicAdd(p + n, 1); }
extern "C" __global__ void shared_past(int* out, int k) {
  __shared__ int s[32];
  s[threadIdx.x + k] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x];
}
extern "C" __global__ void dynamic_past(int* out, int k) {
  extern __shared__ int d[];
  d[threadIdx.x + k] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = d[threadIdx.x];
}
extern "C" __global__ void race_raw(int* out) {
  __shared__ int s[64];
  s[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = s[63 - threadIdx.x];
}
extern "C" __global__ void race_waw(int* out) {
  __shared__ int s;
  s = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = s;
}
extern "C" __global__ void race_war(int* out) {
  __shared__ int s[64];
  s[threadIdx.x] = 1;
  __syncthreads();
  int v = s[63 - threadIdx.x];
  s[threadIdx.x] = v + 1;
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x];
}
extern "C" __global__ void race_in_warp(int* out) {
  __shared__ int s[32];
  s[threadIdx.x] = 1;
  out[threadIdx.x] = s[31 - threadIdx.x];
}
extern "C" __global__ void race_same_value(int* out) {
  __shared__ int s;
  s = 5;
  __syncthreads();
  out[threadIdx.x] = s;
}
extern "C" __global__ void race_atomic(int* out) {
  __shared__ int s;
  if (threadIdx.x == 0) s = 0;
  __syncthreads();
  atomicAdd(&s, 1);
  out[threadIdx.x] = s;
}
extern "C" __global__ void no_race_warp(int* out) {
  __shared__ int s[32];
  s[threadIdx.x] = 1;
  __syncwarp();
  out[threadIdx.x] = s[31 - threadIdx.x];
}
extern "C" __global__ void diverges(int* x) {
  if (threadIdx.x == 2) return;
  __syncthreads();
  x[threadIdx.x] = 1;
}
int main(int argc, char** argv) {
  const int c = argc > 1 ? atoi(argv[1]) : 0;
  float *a, *b;
  cudaMalloc(&a, 400);
  cudaMalloc(&b, 4096);
  int* i = (int*)b;
  switch (c) {
    case 0: read_past<<<2, 64>>>(a, b, 100); break;
    case 1: write_past<<<dim3(4, 1, 1), dim3(32, 1, 1)>>>((int*)a); break;
    case 2: write_double<<<1, 64>>>((double*)a); break;
    case 3: misaligned<<<1, 1>>>((char*)a); break;
    case 4: null_read<<<1, 2>>>(nullptr, i); break;
    case 5: atomic_past<<<1, 1>>>((int*)a, 100); break;
    case 6: shared_past<<<1, 32>>>(i, 4); break;
    case 7: dynamic_past<<<1, 32, 128>>>(i, 4); break;
    case 8: race_raw<<<1, 64>>>(i); break;
    case 9: race_waw<<<1, 64>>>(i); break;
    case 10: race_war<<<1, 64>>>(i); break;
    case 11: race_in_warp<<<1, 32>>>(i); break;
    case 12: race_same_value<<<1, 64>>>(i); break;
    case 13: race_atomic<<<1, 64>>>(i); break;
    case 14: no_race_warp<<<1, 32>>>(i); break;
    case 15: diverges<<<1, 64>>>(i); break;
  }
  printf("launch: %s\n", cudaGetErrorString(cudaGetLastError()));
  printf("sync: %s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
