// What programs use of CUB.
#include <cub/cub.cuh>

#include "printing.h"

struct Larger {
  template <class T>
  __host__ __device__ T operator()(const T& a, const T& b) const { return b > a ? b : a; }
};
template <int kThreads, class T>
__global__ void block_reduce(const T* in, T* out, int valid) {
  using Reduce = cub::BlockReduce<T, kThreads>;
  __shared__ typename Reduce::TempStorage memory;
  const T sum = Reduce(memory).Sum(in[threadIdx.x]);
  __syncthreads();
  const T most = Reduce(memory).Reduce(in[threadIdx.x], Larger());
  __syncthreads();
  const T part = Reduce(memory).Sum(in[threadIdx.x], valid);
  __syncthreads();
  T both[2] = {in[threadIdx.x], in[(threadIdx.x + 1) % kThreads]};
  const T pairs = Reduce(memory).Sum(both);
  if (threadIdx.x == 0) out[0] = sum, out[1] = most, out[2] = part, out[3] = pairs;
}
template <int kThreads, class T, cub::BlockScanAlgorithm kHow>
__global__ void block_scan(const T* in, T* out) {
  using Scan = cub::BlockScan<T, kThreads, kHow>;
  __shared__ typename Scan::TempStorage memory;
  T a, b, c, total, items[2] = {in[threadIdx.x], T(1)}, made[2];
  Scan(memory).InclusiveSum(in[threadIdx.x], a);
  __syncthreads();
  Scan(memory).ExclusiveSum(in[threadIdx.x], b, total);
  __syncthreads();
  Scan(memory).InclusiveScan(in[threadIdx.x], c, Larger());
  __syncthreads();
  Scan(memory).ExclusiveSum(items, made);
  T* mine = out + threadIdx.x * 6;
  mine[0] = a, mine[1] = b, mine[2] = c, mine[3] = total, mine[4] = made[0], mine[5] = made[1];
}
template <class T>
__global__ void warp_reduce(const T* in, T* out) {
  using Reduce = cub::WarpReduce<T>;
  using Scan = cub::WarpScan<T>;
  __shared__ typename Reduce::TempStorage memory[4];
  __shared__ typename Scan::TempStorage other[4];
  const int warp = threadIdx.x / 32;
  const T sum = Reduce(memory[warp]).Sum(in[threadIdx.x]);
  const T most = Reduce(memory[warp]).Reduce(in[threadIdx.x], Larger());
  T a, b;
  Scan(other[warp]).InclusiveSum(in[threadIdx.x], a);
  Scan(other[warp]).ExclusiveSum(in[threadIdx.x], b);
  if (threadIdx.x % 32 == 0) out[warp * 2] = sum, out[warp * 2 + 1] = most;
  out[8 + threadIdx.x * 2] = a, out[8 + threadIdx.x * 2 + 1] = b;
}
template <int kThreads>
__global__ void block_sort(const int* in, int* out) {
  using Sort = cub::BlockRadixSort<int, kThreads, 4, int>;
  using Load = cub::BlockLoad<int, kThreads, 4, cub::BLOCK_LOAD_TRANSPOSE>;
  using Store = cub::BlockStore<int, kThreads, 4, cub::BLOCK_STORE_TRANSPOSE>;
  __shared__ union {
    typename Sort::TempStorage sort;
    typename Load::TempStorage load;
    typename Store::TempStorage store;
  } memory;
  int keys[4], values[4];
  Load(memory.load).Load(in, keys);
  __syncthreads();
  for (int k = 0; k < 4; ++k) values[k] = threadIdx.x * 4 + k;
  Sort(memory.sort).Sort(keys, values);
  __syncthreads();
  Store(memory.store).Store(out, keys);
  __syncthreads();
  Store(memory.store).Store(out + kThreads * 4, values);
}
template <class T>
static void cub_in_kernels(const char* kind, const std::vector<T>& values) {
  char line[64];
  Buffer<T> in(values), four(4), wide(128 * 6), warps(8 + 256);
  block_reduce<128, T><<<1, 128>>>(in.p, four.p, 77);
  snprintf(line, sizeof line, "BlockReduce %s", kind);
  print(line, four.home());
  block_scan<128, T, cub::BLOCK_SCAN_RAKING><<<1, 128>>>(in.p, wide.p);
  snprintf(line, sizeof line, "BlockScan %s", kind);
  print(line, wide.home());
  block_scan<128, T, cub::BLOCK_SCAN_WARP_SCANS><<<1, 128>>>(in.p, wide.p);
  snprintf(line, sizeof line, "BlockScan warps %s", kind);
  print(line, wide.home());
  warp_reduce<T><<<1, 128>>>(in.p, warps.p);
  snprintf(line, sizeof line, "Warp %s", kind);
  print(line, warps.home());
}

// ------------------------------------------------------------- CUB over a device's memory
template <class Call>
static void with_memory(Call call) {
  size_t bytes = 0;
  CHECK(call(nullptr, bytes));
  Buffer<char> memory(bytes ? bytes : 1);
  CHECK(call(memory.p, bytes));
}
struct Even {
  __host__ __device__ bool operator()(int v) const { return v % 2 == 0; }
};
static void cub_over_memory() {
  constexpr int n = 3000;
  const auto host = numbers<int>(n, 3, 500);
  Buffer<int> in(host), out(n), values(numbers<int>(n, 4, 1000)), values_out(n), one(1), ends({0, 700, 700, 2999, n});
  Buffer<char> flags(numbers<char>(n, 5, 2));
  Buffer<long long> total(1);
  const auto head = [&](const char* name, const Buffer<int>& b, size_t count) {
    auto all = b.home();
    all.resize(count);
    print(name, all);
  };
  with_memory([&](void* m, size_t& b) { return cub::DeviceReduce::Sum(m, b, in.p, total.p, n); });
  print("DeviceReduce::Sum", total.home());
  with_memory([&](void* m, size_t& b) { return cub::DeviceReduce::Min(m, b, in.p, one.p, n); });
  head("DeviceReduce::Min", one, 1);
  with_memory([&](void* m, size_t& b) { return cub::DeviceReduce::Max(m, b, in.p, one.p, n); });
  head("DeviceReduce::Max", one, 1);
  with_memory([&](void* m, size_t& b) { return cub::DeviceReduce::Reduce(m, b, in.p, one.p, n, Larger(), -1000); });
  head("DeviceReduce::Reduce", one, 1);
  with_memory([&](void* m, size_t& b) { return cub::DeviceScan::ExclusiveSum(m, b, in.p, out.p, n); });
  head("DeviceScan::ExclusiveSum", out, n);
  with_memory([&](void* m, size_t& b) { return cub::DeviceScan::InclusiveSum(m, b, in.p, out.p, n); });
  head("DeviceScan::InclusiveSum", out, n);
  with_memory([&](void* m, size_t& b) { return cub::DeviceScan::InclusiveScan(m, b, in.p, out.p, Larger(), n); });
  head("DeviceScan::InclusiveScan", out, 200);
  with_memory([&](void* m, size_t& b) { return cub::DeviceScan::ExclusiveScan(m, b, in.p, out.p, Larger(), -7, n); });
  head("DeviceScan::ExclusiveScan", out, 200);
  with_memory([&](void* m, size_t& b) { return cub::DeviceRadixSort::SortKeys(m, b, in.p, out.p, n); });
  head("DeviceRadixSort::SortKeys", out, 300);
  with_memory([&](void* m, size_t& b) {
    return cub::DeviceRadixSort::SortPairs(m, b, in.p, out.p, values.p, values_out.p, n);
  });
  head("DeviceRadixSort::SortPairs", values_out, n);
  with_memory([&](void* m, size_t& b) {
    return cub::DeviceRadixSort::SortPairsDescending(m, b, in.p, out.p, values.p, values_out.p, n);
  });
  head("DeviceRadixSort::SortPairsDescending", values_out, n);
  with_memory([&](void* m, size_t& b) {
    return cub::DeviceRadixSort::SortPairs(m, b, in.p, out.p, values.p, values_out.p, n, 2, 6);
  });
  head("DeviceRadixSort::SortPairs bits 2 to 6", values_out, n);
  with_memory([&](void* m, size_t& b) { return cub::DeviceSelect::Flagged(m, b, in.p, flags.p, out.p, one.p, n); });
  head("DeviceSelect::Flagged", out, one.home()[0]);
  with_memory([&](void* m, size_t& b) { return cub::DeviceSelect::If(m, b, in.p, out.p, one.p, n, Even()); });
  head("DeviceSelect::If", out, one.home()[0]);
  with_memory([&](void* m, size_t& b) { return cub::DeviceSelect::Unique(m, b, flags.p, out.p, one.p, n); });
  head("DeviceSelect::Unique", one, 1);
  with_memory([&](void* m, size_t& b) {
    return cub::DeviceRunLengthEncode::Encode(m, b, flags.p, out.p, values_out.p, one.p, n);
  });
  head("DeviceRunLengthEncode::Encode", values_out, one.home()[0]);
  Buffer<int> sums(4);
  with_memory(
      [&](void* m, size_t& b) { return cub::DeviceSegmentedReduce::Sum(m, b, in.p, sums.p, 4, ends.p, ends.p + 1); });
  head("DeviceSegmentedReduce::Sum", sums, 4);
}

int main() {
  cub_in_kernels<int>("int", numbers<int>(128, 1, 1000));
  cub_in_kernels<float>("float", fractions(128, 2));
  Buffer<int> in(numbers<int>(256, 7, 100)), out(512);
  block_sort<64><<<1, 64>>>(in.p, out.p);
  print("BlockRadixSort", out.home());
  cub_over_memory();
  CHECK(cudaDeviceSynchronize());
}
