"""Barriers and pipelines of libcu++, and the copies that they wait for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from harness.cuda_programs import GROUPS, run_text

_HEAD = f"""{GROUPS}#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_pipeline.h>
using barrier = cuda::barrier<cuda::thread_scope_block>;
"""


def _run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    return run_text(folder, _HEAD + text)


REVERSED = """
__global__ void reversed(const int* in, int* out, int rounds) {
  __shared__ barrier bar;
  __shared__ int held[64];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  for (int i = 0; i < rounds; ++i) {
    held[threadIdx.x] = in[threadIdx.x] + i;
    barrier::arrival_token token = bar.arrive();
    bar.wait(std::move(token));
    out[i * 64 + threadIdx.x] = held[63 - threadIdx.x];
    bar.arrive_and_wait();
  }
}
int main() {
  int in[64], out[3 * 64], wrong = 0;
  for (int i = 0; i < 64; ++i) in[i] = i * i;
  reversed<<<1, 64>>>(in, out, 3);
  for (int r = 0; r < 3; ++r)
    for (int i = 0; i < 64; ++i) wrong += out[r * 64 + i] != in[63 - i] + r;
  printf("%d %s\\n", wrong, cudaGetErrorName(cudaGetLastError()));
}
"""


def test_threads_wait_at_a_barrier(tmp_path: Path) -> None:
    assert _run(tmp_path, REVERSED).stdout == "0 cudaSuccess\n"


@pytest.mark.slow
def test_checks_accept_memory_that_a_barrier_orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHDEVICE_SANITIZE", "memcheck,racecheck")
    done = _run(tmp_path, REVERSED)
    assert (done.stdout, done.stderr) == ("0 cudaSuccess\n", "")
    racy = REVERSED.replace("bar.wait(std::move(token));", "").replace("bar.arrive_and_wait();", "")
    with pytest.raises(subprocess.CalledProcessError) as failed:
        _run(tmp_path, racy)
    assert "Race reported between" in failed.value.stderr


def test_a_barrier_runs_its_completion_once_and_forgets_threads_that_leave(tmp_path: Path) -> None:
    text = """
struct Count { int* phases; __device__ void operator()() { ++*phases; } };
__global__ void leave(int* phases, int* seen) {
  __shared__ cuda::barrier<cuda::thread_scope_block, Count> bar;
  if (threadIdx.x == 0) init(&bar, blockDim.x, Count{phases});
  __syncthreads();
  for (unsigned i = 0; i < threadIdx.x; ++i) bar.arrive_and_wait();  // thread i leaves after i phases
  seen[threadIdx.x] = *phases;
  bar.arrive_and_drop();
}
int main() {
  int phases = 0, seen[8];
  leave<<<1, 8>>>(&phases, seen);
  printf("%d:", phases);
  for (int i : seen) printf(" %d", i);
}
"""
    assert _run(tmp_path, text).stdout == "8: 0 1 2 3 4 5 6 7"


#: Pipelines, and how many of the 64 threads produce and consume: half of them each, or all of them both.
PIPELINES = [
    ("cuda::make_pipeline(block, &state, in_front ? roles::producer : roles::consumer)", 32),
    ("cuda::make_pipeline(block, &state, 32)", 32),
    ("cuda::make_pipeline(block, &state)", 64),
]
SUM = """
__global__ void sum_NUMBER(const int* in, int* out, int rounds, unsigned producers) {
  auto block = cg::this_thread_block();
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  __shared__ int held[2][64];
  const bool in_front = threadIdx.x < 32, shares = producers == 64;
  auto pipe = MADE;
  int total = 0;
  for (int i = 0; i < rounds; ++i) {
    if (in_front || shares) {
      pipe.producer_acquire();
      for (unsigned j = threadIdx.x; j < 64; j += producers)
        cuda::memcpy_async(&held[i % 2][j], &in[i * 64 + j], sizeof(int), pipe);
      pipe.producer_commit();
    }
    if (!in_front || shares) {
      pipe.consumer_wait();
      for (int j = 0; j < 64; ++j) total += held[i % 2][j];
      pipe.consumer_release();
    }
  }
  out[threadIdx.x] = total;
}
"""
SUMS = """
int main(int words, char**) {
  int in[640], out[64], sum_of_all = 0, right = 0;
  for (int i = 0; i < 640; ++i) sum_of_all += in[i] = i * 7 % 13;
  if (words == 1) sum_0<<<1, 64>>>(in, out, 10, 32);
  if (words == 2) sum_1<<<1, 64>>>(in, out, 10, 32);
  if (words == 3) sum_2<<<1, 64>>>(in, out, 10, 64);
  for (int i : out) right += i == sum_of_all;
  printf("%d %s\\n", right, cudaGetErrorName(cudaGetLastError()));
}
"""


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a program with a kernel for each of the pipelines; the number of its arguments chooses one."""
    folder = tmp_path_factory.mktemp("sums")
    kernels = [SUM.replace("MADE", made).replace("NUMBER", str(number)) for number, (made, _) in enumerate(PIPELINES)]
    _run(folder, "\n".join(["using roles = cuda::pipeline_role;", *kernels, SUMS]))
    return folder / "program"


@pytest.mark.parametrize("number", range(len(PIPELINES)), ids=[made for made, _ in PIPELINES])
def test_consumers_wait_for_what_producers_copy(number: int, sums: Path) -> None:
    """Two stages and ten rounds: a producer overwrites a stage only when every consumer has read it."""
    words = [str(sums), *["next"] * number]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"{PIPELINES[number][1]} cudaSuccess\n"


def test_a_thread_copies_for_itself(tmp_path: Path) -> None:
    text = """
__global__ void copies(const int4* in, int* out) {
  __shared__ int4 held[32];
  __shared__ int zeroed[32][4];
  auto pipe = cuda::make_pipeline();
  pipe.producer_acquire();
  cuda::memcpy_async(&held[threadIdx.x], &in[threadIdx.x], cuda::aligned_size_t<16>(16), pipe);
  pipe.producer_commit();
  cuda::pipeline_consumer_wait_prior<0>(pipe);
  __pipeline_memcpy_async(zeroed[threadIdx.x], &in[threadIdx.x], 16, 8);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  out[threadIdx.x] = held[threadIdx.x].w * 100 + zeroed[threadIdx.x][1] * 10 + zeroed[threadIdx.x][2];
  pipe.consumer_release();
}
int main() {
  int4 in[32];
  int out[32], wrong = 0;
  for (int i = 0; i < 32; ++i) in[i] = {-1, i, -1, 2 * i};
  copies<<<1, 32>>>(in, out);
  for (int i = 0; i < 32; ++i) wrong += out[i] != 2 * i * 100 + i * 10;
  printf("%d\\n", wrong);
}
"""
    assert _run(tmp_path, text).stdout == "0\n"


def test_a_barrier_that_threads_miss_ends_the_kernel(tmp_path: Path) -> None:
    text = """
__global__ void stuck(int threads) {
  __shared__ barrier bar;
  if (threadIdx.x == 0) init(&bar, threads);
  __syncthreads();
  bar.arrive_and_wait();
}
int main(int words, char**) {
  stuck<<<1, 4>>>(words == 1 ? 5 : 0);
  printf("%s\\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
"""
    missed = _run(tmp_path, text)
    assert missed.stdout == "cudaErrorLaunchFailure\n"
    line = _HEAD.count("\n") + 6
    said = f"program.cu:{line}: kernel stuck: block: [0,0,0], thread: [0,0,0] waits in cuda::barrier::wait()"
    assert f"{said} for threads that do not come" in missed.stderr
    late = subprocess.run([str(tmp_path / "program"), "late"], capture_output=True, text=True, timeout=60, check=True)
    assert "cuda::barrier: 1 arrivals where 0 of 0 are missing" in late.stderr
