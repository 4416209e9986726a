"""Measure CUDA C++ kernels on the host, beside NumPy and PyTorch's own product.

    python tools/bench/kernels.py [--json] [--threads 1] [--only add,matmul,reduce,barriers]

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
extern "C" __global__ void reduce(const float* x, float* out, int n) {
  __shared__ float s[256];
  int t = threadIdx.x;
  float sum = 0;
  for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) sum += x[i];
  s[t] = sum;
  __syncthreads();
  for (int k = 128; k > 0; k >>= 1) {
    if (t < k) s[t] += s[t + k];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = s[0];
}
__device__ float add_warp(float v) {
  for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffffu, v, o);
  return v;
}
extern "C" __global__ void reduce_warps(const float* x, float* out, int n) {
  __shared__ float s[32];
  int t = threadIdx.x;
  float sum = 0;
  for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) sum += x[i];
  sum = add_warp(sum);
  if (t % 32 == 0) s[t / 32] = sum;
  __syncthreads();
  if (t < 32) {
    sum = add_warp(t < 8 ? s[t] : 0.0f);
    if (t == 0) out[blockIdx.x] = sum;
  }
}
extern "C" __global__ void barriers(float* x, int n) {
  __shared__ float s[256];
  s[threadIdx.x] = 0;
  for (int i = 0; i < n; ++i) {
    __syncthreads();
    s[threadIdx.x] += i;
  }
  x[threadIdx.x] = s[threadIdx.x];
}
extern "C" __global__ void fibers(int n) {  // not split: the number of barriers depends on the thread
  for (int i = 0; i < n + int(threadIdx.x >> 20); ++i) __syncthreads();
}
"""


def best(call: Callable[[], object], times: int = 5) -> float:
    """Return milliseconds of processor time, the least of several: other programs' work does not count."""
    spent = []
    for _ in range(times):
        start = time.process_time()
        call()
        spent.append((time.process_time() - start) * 1e3)
    return min(spent)


def beside(what: str, ours: float, theirs: float) -> Row:
    """Return a row with both times in milliseconds."""
    return {"what": what, "ours_ms": round(ours, 2), "theirs_ms": round(theirs, 2), "ratio": round(ours / theirs, 2)}


def main() -> None:
    options, only = begin(__doc__ or "")
    names = ("add", "matmul", "reduce", "reduce_warps", "barriers", "fibers")
    add, matmul, reduce, reduce_warps, barriers, fibers = (torch.cuda._compile_kernel(SOURCE, name) for name in names)
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
    if not only or "reduce" in only:
        n = 4_000_000
        x, host = torch.ones(n, device="cuda"), torch.ones(n)
        for blocks in (64, n // 1024):  # many elements for each thread, or four
            part = torch.zeros(blocks, device="cuda")
            for name, kernel in (("shared memory", reduce), ("warps", reduce_warps)):
                ours = best(
                    lambda kernel=kernel, part=part: kernel(
                        grid=(len(part), 1, 1), block=(256, 1, 1), args=[x, part, n]
                    )
                )
                theirs = best(lambda: host.sum(), 20)
                rows.append(beside(f"sum of {n} by {name}, {blocks} blocks, beside torch.sum", ours, theirs))
    if not only or "barriers" in only:
        x = torch.zeros(256, device="cuda")
        spent = best(lambda: barriers(grid=(64, 1, 1), block=(256, 1, 1), args=[x, 200]), 3)
        rows.append({"what": "a thread at a barrier, as a loop", "ns": round(spent * 1e6 / (64 * 256 * 200), 2)})
        spent = best(lambda: fibers(grid=(64, 1, 1), block=(256, 1, 1), args=[200]), 3)
        rows.append({"what": "a thread at a barrier, as a fiber", "ns": round(spent * 1e6 / (64 * 256 * 200), 2)})
    show(rows, options)


if __name__ == "__main__":
    main()
