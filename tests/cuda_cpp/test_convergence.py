"""Groups of the lanes that come to a line together: __activemask() and coalesced_threads() in branches and loops."""

from __future__ import annotations

from pathlib import Path

from harness.cuda_programs import GROUPS, run_text


def _run(folder: Path, text: str) -> str:
    done = run_text(folder, GROUPS + text)
    assert done.stderr == ""
    return done.stdout


def test_lanes_of_a_branch_are_a_group(tmp_path: Path) -> None:
    text = """
__global__ void branches(unsigned* masks) {
  if (threadIdx.x % 3 == 0) masks[threadIdx.x] = __activemask();
  else if (threadIdx.x < 20) masks[threadIdx.x] = cg::coalesced_threads().size();
  else masks[threadIdx.x] = 0;
  __syncthreads();
  masks[threadIdx.x + 40] = __activemask();
}
int main() {
  unsigned masks[80], wrong = 0;
  branches<<<1, 40>>>(masks);
  for (unsigned i = 0; i < 40; ++i) {
    unsigned every_third = 0, others = 0;
    for (unsigned lane = 0; lane < 32 && i / 32 * 32 + lane < 40; ++lane) {
      every_third |= (i / 32 * 32 + lane) % 3 == 0 ? 1u << lane : 0;
      others += (i / 32 * 32 + lane) % 3 != 0 && i / 32 * 32 + lane < 20;
    }
    wrong += masks[i] != (i % 3 == 0 ? every_third : i < 20 ? others : 0);
    wrong += masks[i + 40] != (i < 32 ? 0xffffffff : 0xff);
  }
  printf("%u %s\\n", wrong, cudaGetErrorName(cudaGetLastError()));
}
"""
    assert _run(tmp_path, text) == "0 cudaSuccess\n"


def test_one_lane_adds_for_all_in_a_loop(tmp_path: Path) -> None:
    """The known way to filter an array: each lane that keeps a value takes a place, one atomic addition for all."""
    text = """
__device__ int take_place(int* count) {
  cg::coalesced_group active = cg::coalesced_threads();
  int first = active.thread_rank() == 0 ? atomicAdd(count, active.size()) : 0;
  return active.shfl(first, 0) + active.thread_rank();
}
__global__ void keep(const int* in, int n, int* out, int* count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    if (in[i] % 7 < 3) out[take_place(count)] = i;
}
int main() {
  const int n = 3001;
  static int in[n], out[n], times[n];
  int count = 0, expected = 0, wrong = 0;
  for (int i = 0; i < n; ++i) in[i] = i * 31 % 101;
  keep<<<3, 96>>>(in, n, out, &count);
  for (int i = 0; i < count; ++i) ++times[out[i]];
  for (int i = 0; i < n; ++i) expected += in[i] % 7 < 3, wrong += times[i] != (in[i] % 7 < 3);
  printf("%d %d %s\\n", count - expected, wrong, cudaGetErrorName(cudaGetLastError()));
}
"""
    assert _run(tmp_path, text) == "0 0 cudaSuccess\n"
