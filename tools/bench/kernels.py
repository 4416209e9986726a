"""Measure CUDA C++ kernels on the host, beside NumPy and PyTorch's own product.

    python tools/bench/kernels.py [--json] [--threads 1] [--only add,matmul,barriers]

Blocks go over the cores whatever ``--threads`` says; it is for NumPy's and PyTorch's side.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy
import torch
from on_virtual import Row, begin, show

SOURCE = r"""
extern "C" __global__ void add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int n) {
  __shared__ float sa[16][16], sb[16][16];
  int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < n / 16; ++t) {
    sa[threadIdx.y][threadIdx.x] = a[row * n + t * 16 + threadIdx.x];
    sb[threadIdx.y][threadIdx.x] = b[(t * 16 + threadIdx.y) * n + col];
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += sa[threadIdx.y][k] * sb[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + col] = sum;
}
extern "C" __global__ void barriers(int n) {
  for (int i = 0; i < n; ++i) __syncthreads();
}
"""


def best(call: Callable[[], object], times: int = 5) -> float:
    """Milliseconds."""
    spent = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        spent.append((time.perf_counter() - start) * 1e3)
    return min(spent)


def beside(what: str, ours: float, theirs: float) -> Row:
    """Return a row with both times in milliseconds."""
    return {"what": what, "ours_ms": round(ours, 2), "theirs_ms": round(theirs, 2), "ratio": round(ours / theirs, 2)}


def main() -> None:
    options, only = begin(__doc__ or "")
    add, matmul, barriers = (torch.cuda._compile_kernel(SOURCE, name) for name in ("add", "matmul", "barriers"))
    rows: list[Row] = []
    if not only or "add" in only:
        n = 10_000_000
        a, b, c = (torch.ones(n, device="cuda") for _ in range(3))
        x, y, z = (numpy.ones(n, dtype=numpy.float32) for _ in range(3))
        ours = best(lambda: add(grid=((n + 255) // 256, 1, 1), block=(256, 1, 1), args=[a, b, c, n]))
        theirs = best(lambda: numpy.add(x, y, out=z))
        rows.append(beside(f"add of {n} floats, beside NumPy", ours, theirs))
    if not only or "matmul" in only:
        size = 512
        m, k, out = (torch.ones(size, size, device="cuda") for _ in range(3))
        ours = best(lambda: matmul(grid=(32, 32, 1), block=(16, 16, 1), args=[m, k, out, size]))
        left, right = torch.ones(size, size), torch.ones(size, size)
        rows.append(beside(f"tiled product of {size}, beside BLAS", ours, best(lambda: left @ right, 20)))
    if not only or "barriers" in only:
        spent = best(lambda: barriers(grid=(64, 1, 1), block=(256, 1, 1), args=[200]), 3)
        rows.append({"what": "a thread at a barrier", "ns": round(spent * 1e6 / (64 * 256 * 200), 1)})
    show(rows, options)


if __name__ == "__main__":
    main()
