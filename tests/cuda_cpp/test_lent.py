"""A GPU that has memory of its own lends it to CUDA C++ kernels, and each launch counts as a fallback."""

from __future__ import annotations

import pytest
import torch
from harness import MPS, STORED, child

from torchdevice_cuda.report.departures import departures

SOURCE = """
extern "C" __global__ void shift(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + 1.0f;
}
"""


@child(MPS, *STORED)
def test_kernels_work_on_memory_that_is_lent() -> None:
    kernel = torch.cuda._compile_kernel(SOURCE, "shift")
    both = torch.arange(20.0, device="cuda")
    x, y = both[:10], both[10:]  # of one storage
    kernel(grid=(1, 1, 1), block=(32, 1, 1), args=[x, y, 10])
    assert torch.equal(y, x + 1) and both.is_cuda
    rows = {(what, where): count for count, what, where, _ in departures.rows()}
    assert rows["kernel shift", "CPU"] == 1


@child(MPS, *STORED)
def test_functions_of_the_jiterator_work_on_memory_that_is_lent() -> None:
    add = torch.cuda.jiterator._create_jit_fn("template <typename T> T add(T x, T y, T a) { return x + a * y; }", a=2.0)
    x = torch.arange(6.0, device="cuda").reshape(2, 3).t()
    made = add(x, torch.ones(2, device="cuda"), a=3)
    assert made.is_cuda and torch.equal(made, x + 3)
    both = torch.cuda.jiterator._create_multi_output_jit_fn(
        "template <typename T> void g(T x, T& a, T& b) { a = x + x; b = -x; }", num_outputs=2
    )
    first, second = both(x)
    assert torch.equal(first, 2 * x) and torch.equal(second, -x)
    rows = {(what, where): count for count, what, where, _ in departures.rows()}
    assert (rows["jiterator add", "CPU"], rows["jiterator g", "CPU"]) == (1, 1)


@child(MPS)
def test_an_extension_is_refused_before_it_is_built() -> None:
    from torch.utils.cpp_extension import load_inline

    with pytest.raises(RuntimeError, match="cannot build an extension with CUDA sources for a GPU whose memory"):
        load_inline("refused", cpp_sources="", cuda_sources=SOURCE)
