// Kernels with and without errors that initcheck, synccheck and, in global memory, racecheck report.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <cooperative_groups.h>
__device__ unsigned retired = 0;
__device__ volatile int ready = 0;
__device__ int claimed = 0;
extern "C" __global__ void between_blocks(int* out) {
  out[threadIdx.x] = blockIdx.x + 1;
}
extern "C" __global__ void neighbor(const int* in, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i + 1] = out[i] + in[i];
}
extern "C" __global__ void disjoint(const char* in, char* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] + 1;
}
extern "C" __global__ void same_value(int* done) { *done = 1; }
extern "C" __global__ void atomics(int* sum) { atomicAdd(sum, 1); }
extern "C" __global__ void plain_sum(int* sum) {
  if (threadIdx.x == 0) *sum += blockIdx.x;
}
// NVIDIA's threadFenceReduction: the last block sums what the others wrote.
template <bool kFence> __device__ void last_block(float* partial, float* result) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = blockIdx.x;
    if (kFence) __threadfence();
    is_last = atomicInc(&retired, gridDim.x) == gridDim.x - 1;
  }
  __syncthreads();
  if (is_last && threadIdx.x == 0) {
    float total = 0;
    for (int i = 0; i < gridDim.x; ++i) total += partial[i];
    *result = total;
    retired = 0;
  }
}
extern "C" __global__ void with_fence(float* partial, float* result) { last_block<true>(partial, result); }
extern "C" __global__ void without_fence(float* partial, float* result) { last_block<false>(partial, result); }
extern "C" __global__ void flag(int* data, int* out) {
  if (blockIdx.x == 0) { *data = 7; __threadfence(); ready = 1; }
  else { while (!ready) {} *out = *data; }
}
// Blocks take what they do from a counter, so that their order decides who does it.
extern "C" __global__ void first_block(int* out) {
  if (atomicAdd(&claimed, 1) == 0) *out = blockIdx.x;
}
extern "C" __global__ void copies(int* out) {
  __shared__ int s[64];
  if (threadIdx.x == 0) memcpy(s, out, sizeof s);
  __syncthreads();
  out[threadIdx.x] = s[63 - threadIdx.x];
}
extern "C" __global__ void unordered_threads(int* data) {
  data[threadIdx.x] = threadIdx.x;
  if (threadIdx.x == 0) data[100] = data[63];
}
extern "C" __global__ void ordered_threads(int* data) {
  data[threadIdx.x] = threadIdx.x;
  __syncthreads();
  if (threadIdx.x == 0) data[100] = data[63];
}
extern "C" __global__ void grid_sync(int* data) {
  data[blockIdx.x] = blockIdx.x;
  cooperative_groups::this_grid().sync();
  data[blockIdx.x + 64] = data[(blockIdx.x + 1) % gridDim.x];
}
extern "C" __global__ void cas_loop(double* sum) {
  auto* p = reinterpret_cast<unsigned long long*>(sum);
  unsigned long long old = *p, assumed;
  do {
    assumed = old;
    old = atomicCAS(p, assumed, __double_as_longlong(1.0 + __longlong_as_double(assumed)));
  } while (assumed != old);
}
extern "C" __global__ void unwritten(const int* in, int* out) { out[threadIdx.x] = in[threadIdx.x]; }
extern "C" __global__ void unwritten_shared(int* out) {
  __shared__ int s[64];
  if (threadIdx.x != 5) s[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x];
}
extern "C" __global__ void ended(int* x) {
  if (threadIdx.x == 2) return;
  __syncthreads();
  x[threadIdx.x] = 1;
}
extern "C" __global__ void two_lines(int* x) {
  if (threadIdx.x < 16) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  x[threadIdx.x] = 1;
}
extern "C" __global__ void two_warps(int* x) {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  x[threadIdx.x] = 1;
}
extern "C" __global__ void shuffle_ended(int* x, int n) {
  if (threadIdx.x >= n) return;
  x[threadIdx.x] = __shfl_down_sync(0xffffffffu, (int)threadIdx.x, 1);
}
extern "C" __global__ void small_block(int* x) { x[threadIdx.x] = __shfl_sync(0xffffffffu, (int)threadIdx.x, 0); }
int main(int argc, char** argv) {
  const int c = argc > 1 ? atoi(argv[1]) : 0;
  char *a, *b;
  cudaMalloc(&a, 4096);
  cudaMalloc(&b, 4096);
  int* i = (int*)a; int* j = (int*)b;
  if (c != 14) { cudaMemset(a, 0, 4096); cudaMemset(b, 0, 4096); }
  switch (c) {
    case 0: between_blocks<<<2, 32>>>(i); break;
    case 1: neighbor<<<2, 32>>>(j, i); break;
    case 2: disjoint<<<10, 50>>>(b, a, 500); break;
    case 3: same_value<<<10, 50>>>(i); break;
    case 4: atomics<<<10, 50>>>(i); break;
    case 5: plain_sum<<<10, 32>>>(i); break;
    case 6: with_fence<<<10, 32>>>((float*)a, (float*)b); break;
    case 7: without_fence<<<10, 32>>>((float*)a, (float*)b); break;
    case 8: flag<<<2, 1>>>(i, j); break;
    case 9: unordered_threads<<<1, 64>>>(i); break;
    case 10: ordered_threads<<<1, 64>>>(i); break;
    case 11: { void* args[] = {&i}; cudaLaunchCooperativeKernel((void*)grid_sync, 4, 1, args, 0, 0); break; }
    case 12: cas_loop<<<10, 32>>>((double*)a); break;
    case 13: unwritten<<<1, 64>>>(i, j); break;
    case 14: unwritten<<<1, 64>>>(i, j); break;
    case 15: unwritten_shared<<<1, 64>>>(i); break;
    case 16: ended<<<1, 64>>>(i); break;
    case 17: two_lines<<<1, 64>>>(i); break;
    case 18: two_warps<<<1, 64>>>(i); break;
    case 19: shuffle_ended<<<1, 64>>>(i, 40); break;
    case 21: first_block<<<10, 32>>>(i); break;
    case 22: copies<<<1, 64>>>(i); break;
    case 20: small_block<<<1, 16>>>(i); break;
  }
  printf("sync: %s\n", cudaGetErrorString(cudaDeviceSynchronize()));
  if (c == 21) printf("first: %d\n", *i);
  if (c != 3) cudaFree(a);
  cudaFree(b);
}
