"""Cooperative launches: the blocks of a grid wait for each other."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest
import torch
from harness import CPU, STORED, VIRTUAL, ChildConfig, outcome
from harness.cuda_programs import GROUPS, run_text

_SUM = """
__global__ void add_up(float* x, float* out, int n) {
  cg::grid_group grid = cg::this_grid();
  extern __shared__ float held[];
  for (int half = n / 2; half > 0; half /= 2) {  // each step reads what other blocks wrote in the one before
    for (unsigned i = grid.thread_rank(); i < half; i += grid.size()) {
      held[threadIdx.x] = x[i + half];
      x[i] += held[threadIdx.x];
    }
    grid.sync();
  }
  if (grid.thread_rank() == grid.size() - 1) *out = x[0];
}
"""


def _run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    return run_text(folder, GROUPS + text)


LAUNCHES = [
    "cudaLaunchCooperativeKernel((void*)add_up, 20, 64, arguments, 64 * sizeof(float))",
    "cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(&add_up), 20, 64, arguments, 256)",
    "cudaLaunchKernelEx(&config, add_up, +x, &out, n)",
]


@pytest.fixture(scope="module")
def launches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a program with all launches, of which the number of its arguments chooses one."""
    text = """
int main(int words, char**) {
  static float x[4096];
  float out = 0, *first = x, *to = &out;
  int n = 4096, can = 0;
  for (int i = 0; i < n; ++i) x[i] = i % 17;
  float sum = 0;
  for (float one : x) sum += one;
  void* arguments[] = {&first, &to, &n};
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  cudaLaunchConfig_t config;
  config.gridDim = 20, config.blockDim = 64, config.dynamicSmemBytes = 256;
  config.attrs = &attribute, config.numAttrs = 1;
  cudaError_t launched = cudaErrorUnknown;
  LAUNCHES
  cudaDeviceGetAttribute(&can, cudaDevAttrCooperativeLaunch, 0);
  printf("%d %s %g %d", can, cudaGetErrorName(launched), out - sum, sum > 0);
}
"""
    folder = tmp_path_factory.mktemp("launches")
    lines = [f"if (words == {number}) launched = {launch};" for number, launch in enumerate(LAUNCHES, 1)]
    _run(folder, _SUM + text.replace("LAUNCHES", "\n".join(lines)))
    return folder / "program"


@pytest.mark.parametrize("number", range(len(LAUNCHES)), ids=LAUNCHES)
def test_blocks_wait_for_each_other(number: int, launches: Path) -> None:
    words = [str(launches), *["next"] * number]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("1 cudaSuccess 0 1", "")


def test_wrong_launches_are_errors(tmp_path: Path) -> None:
    text = """
__global__ void some_end() { if (blockIdx.x < 3) cg::this_grid().sync(); }
int main() {
  void* arguments[] = {nullptr};
  printf("%s ", cudaGetErrorName(cudaLaunchCooperativeKernel(some_end, 3, 1024, arguments)));
  cudaGetLastError();
  LAUNCH;
  printf("%s", cudaGetErrorName(cudaDeviceSynchronize()));
}
"""
    plain = _run(tmp_path, text.replace("LAUNCH", "some_end<<<4, 32>>>()"))
    assert plain.stdout == "cudaErrorCooperativeLaunchTooLarge cudaErrorLaunchFailure"
    assert "that cudaLaunchCooperativeKernel did not launch" in plain.stderr
    ended = _run(tmp_path, text.replace("LAUNCH", "cudaLaunchCooperativeKernel(some_end, 4, 32, arguments)"))
    assert ended.stdout == "cudaErrorCooperativeLaunchTooLarge cudaErrorLaunchFailure"
    assert "waits in grid.sync() for blocks that have ended" in ended.stderr


def add_up_a_tensor() -> float:
    from torch.utils.cpp_extension import load_inline

    text = f"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
{_SUM}
void add_all(torch::Tensor x, torch::Tensor out) {{
  float *from = x.data_ptr<float>(), *to = out.data_ptr<float>();
  int n = x.numel();
  void* arguments[] = {{&from, &to, &n}};
  auto stream = at::cuda::getCurrentCUDAStream();
  C10_CUDA_CHECK(cudaLaunchCooperativeKernel((void*)add_up, 12, 64, arguments, 256, stream));
}}
"""
    declared = ["void add_all(torch::Tensor, torch::Tensor);"]
    with tempfile.TemporaryDirectory() as folder:  # two processes that build in one folder wait for each other
        module = load_inline("add_all", declared, [text], functions=["add_all"], build_directory=folder)
    x = torch.arange(2048.0, device="cuda") % 13
    expected, out = x.sum().item(), torch.zeros(1, device="cuda")
    module.add_all(x, out)
    return float(out.item() - expected)


@pytest.mark.slow
@pytest.mark.parametrize("config", [VIRTUAL, CPU, STORED[1]], ids=str)
def test_extensions_launch_cooperative_kernels(config: ChildConfig) -> None:
    assert outcome(add_up_a_tensor, config).value == 0
