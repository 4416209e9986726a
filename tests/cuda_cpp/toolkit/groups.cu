// Groups of threads, and a launch that is written `<< <...>> >`.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#include <cstdio>

namespace cg = cooperative_groups;

struct Wide {
  double a, b, c;
};

__device__ int sum(cg::thread_group group, int* room, int value) {
  room[group.thread_rank()] = value;
  group.sync();
  int total = 0;
  for (unsigned i = 0; i < group.size(); ++i) total += room[i];
  group.sync();
  return total;
}

__global__ void describe(int* out) {
  __shared__ int room[64];
  auto block = cg::this_thread_block();
  auto grid = cg::this_grid();
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  auto eight = cg::tiled_partition<8>(warp);
  auto same = cg::labeled_partition(warp, static_cast<int>(warp.thread_rank()) % 3);
  const int members = cg::reduce(same, 1, cg::plus<int>());
  const Wide wide = warp.shfl(Wide{1.0 * warp.thread_rank(), 2, 3}, 7);
  const int inclusive = cg::inclusive_scan(eight, 1), exclusive = cg::exclusive_scan(eight, 2, cg::plus<int>());
  const bool holds = wide.a == 7 && sum(block, room, 1) == 64 && grid.num_blocks() == 2;
  int* const mine = out + 6 * grid.thread_rank();
  mine[0] = members;
  mine[1] = static_cast<int>(same.meta_group_rank());
  mine[2] = static_cast<int>(eight.meta_group_rank());
  mine[3] = inclusive;
  mine[4] = exclusive;
  mine[5] = holds;
}
__global__ void wait_for_all() {
  cg::this_grid().sync();
}

int main() {
  int out[128 * 6];
  dim3 gridDim(2);
  describe<<<gridDim, 64>>>(out);
  for (int i : {0, 1, 33, 127})
    printf(
        "%d %d %d %d %d %d\n", out[6 * i], out[6 * i + 1], out[6 * i + 2], out[6 * i + 3], out[6 * i + 4],
        out[6 * i + 5]);
  wait_for_all<<<1, 4>>>();
  printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
  wait_for_all<<<2, 4>>>();
  printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
