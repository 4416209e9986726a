// Warps that count on running in step: reductions, a scan and a search on volatile memory, without barriers.
#include <cstdio>

template <unsigned Threads>
__device__ void finish(volatile float* s, unsigned t) {
  if (Threads >= 64) s[t] += s[t + 32];
  if (Threads >= 32) s[t] += s[t + 16];
  s[t] += s[t + 8];
  s[t] += s[t + 4];
  s[t] += s[t + 2];
  s[t] += s[t + 1];
}

template <unsigned Threads>
__global__ void reduce(const float* in, float* out, unsigned n) {
  extern __shared__ float room[];
  const unsigned t = threadIdx.x;
  float sum = 0;
  for (unsigned i = blockIdx.x * Threads * 2 + t; i < n; i += Threads * 2 * gridDim.x) sum += in[i] + in[i + Threads];
  room[t] = sum;
  __syncthreads();
  if (Threads >= 128) {
    if (t < 64) room[t] += room[t + 64];
    __syncthreads();
  }
  if (t < 32) finish<Threads>(room, t);
  if (t == 0) out[blockIdx.x] = room[0];
}

// The sum of the lanes up to each one; lanes read what lower ones are about to change.
__global__ void scan(int* x) {
  volatile __shared__ int s[64];
  const int t = threadIdx.x, lane = t % 32;
  int sum = x[t];
  s[t] = sum;
  for (int i = 1; i < 32; i *= 2)
    if (lane >= i) s[t] = sum = sum + s[t - i];
  x[t] = s[t];
}

// Lanes that are not in the condition go on with those that were.
__global__ void search(const int* values, int* out) {
  __shared__ int least[64], places[64];
  volatile int *low = least, *where = places;
  const int t = threadIdx.x;
  low[t] = values[t];
  where[t] = t;
  __syncthreads();
  for (int i = 16; i > 0; i /= 2) {
    if (t < 32 && low[t] > low[t ^ i]) {
      low[t] = low[t ^ i];
      where[t] = where[t ^ i];
    }
    if (t < 32 && low[t] == low[t ^ i] && where[t] > where[t ^ i]) {
      where[t] = where[t ^ i];
    }
  }
  if (t < 32) out[t] = where[t];
}

int main() {
  float in[1024], out[2];
  for (int i = 0; i < 1024; ++i) in[i] = static_cast<float>(i % 7);
  reduce<128><<<2, 128, 192 * sizeof(float)>>>(in, out, 1024);
  printf("%g\n", out[0] + out[1]);
  reduce<64><<<1, 64, 96 * sizeof(float)>>>(in, out, 1024);
  printf("%g\n", out[0]);
  int x[64], found[32], is_wrong = 0;
  for (int i = 0; i < 64; ++i) x[i] = i;
  scan<<<1, 64>>>(x);
  printf("%d %d %d\n", x[5], x[31], x[63]);
  for (int i = 0; i < 64; ++i) x[i] = (i * 37 + 11) % 64;
  search<<<1, 64>>>(x, found);
  for (int i = 0; i < 32; ++i) is_wrong += found[i] != found[0];
  printf("%d %d\n", x[found[0]], is_wrong);
}
