// CUB: a prefix for a scan, exchanges, segments, keys; libcu++'s names; cuRAND's by another header.
#include <curand_philox4x32_x.h>
#include <thrust/iterator/reverse_iterator.h>
#include <cub/block/block_raking_layout.cuh>
#include <cub/cub.cuh>
#include <cub/util_ptx.cuh>
#include <cuda/atomic>
#include <cuda/std/type_traits>
#include <cuda_pipeline_primitives.h>

#include <cstdio>

struct Running {
  int total;
  __device__ int operator()(int block) {
    const int before = total;
    total += block;
    return before;
  }
};

__global__ void scan(int* out) {
  using Scan = cub::BlockScan<int, 64>;
  using Exchange = cub::BlockExchange<int, 64, 2>;
  __shared__ typename Scan::TempStorage scanned;
  __shared__ typename Exchange::TempStorage exchanged;
  Running prefix{100};
  int items[2] = {1, 2}, made[2];
  for (int i = 0; i < 2; ++i) {
    Scan(scanned).InclusiveScan(items, made, cub::Sum(), prefix);
    __syncthreads();
  }
  Exchange(exchanged).BlockedToStriped(made);
  out[threadIdx.x] = made[0];
  out[threadIdx.x + 64] = made[1];
  cuda::atomic_ref<int, cuda::thread_scope_device> sum(out[128]);
  sum.fetch_add(cub::ShuffleDown<32>(static_cast<int>(threadIdx.x) % 32, 1, 31, 0xffffffffu));
}

__global__ void copy(const int* in, int* out) {
  __shared__ int4 room[4];
  __pipeline_memcpy_async(room + threadIdx.x, in + 4 * threadIdx.x, 16, threadIdx.x == 3 ? 8 : 0);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  const int4 found = room[3 - threadIdx.x];
  out[threadIdx.x] = found.x + found.w;
}

int main() {
  int out[129] = {};
  scan<<<1, 64>>>(out);
  printf("%d %d %d %d\n", out[0], out[1], out[127], out[128]);
  int keys[6] = {3, 1, 2, 9, 8, 7}, sorted[6], values[6] = {0, 1, 2, 3, 4, 5}, moved[6], ends[3] = {0, 3, 6};
  size_t bytes = 0;
  char memory[8];
  void* room = nullptr;
  for (int i = 0; i < 2; ++i, room = memory)
    cub::DeviceSegmentedRadixSort::SortPairs(room, bytes, keys, sorted, values, moved, 6L, 2, ends, ends + 1);
  for (int i = 0; i < 6; ++i) printf("%d:%d ", sorted[i], moved[i]);
  int groups[6] = {0, 0, 1, 1, 1, 2}, sums[6];
  cub::DeviceScan::InclusiveSumByKey(memory, bytes, groups, keys, sums, 6);
  for (int one : sums) printf("%d ", one);
  cub::KeyValuePair<int, int> best;
  cub::DeviceReduce::ArgMax(memory, bytes, keys, &best, 6);
  printf(
      "%d %d %d %d\n", *thrust::make_reverse_iterator(keys + 6), best.key, best.value,
      int(cuda::std::is_same<int, int>::value));
  int numbers[16];
  for (int i = 0; i < 16; ++i) numbers[i] = i;
  copy<<<1, 4>>>(numbers, out);
  printf("%d %d %d %d\n", out[0], out[1], out[2], out[3]);
}
