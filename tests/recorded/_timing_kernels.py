"""Kernels of a program's own that `timing_layouts.py` times: CUDA C++ and Triton."""

from __future__ import annotations

import functools
from typing import Any

import torch

from recorded._timing_calls import Call, draw

SOURCE = r"""
extern "C" __global__ void saxpy(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = 2.0f * x[i] + y[i];
}
extern "C" __global__ void reduce(const float* x, float* z, int n) {
  __shared__ float sums[256];
  int i = blockIdx.x * 512 + threadIdx.x;
  float sum = 0.0f;
  if (i < n) sum = x[i];
  if (i + 256 < n) sum += x[i + 256];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) z[blockIdx.x] = sums[0];
}
extern "C" __global__ void gather(const float* x, const int* places, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[places[i]];
}
extern "C" __global__ void arithmetic(const float* x, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a = x[i];
  for (int k = 0; k < 2000; ++k) a = a * 1.0001f + 0.5f;
  z[i] = a;
}
extern "C" __global__ void product(const float* a, const float* b, float* c, int n) {
  __shared__ float left[16][16], right[16][16];
  int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0.0f;
  for (int tile = 0; tile < n / 16; ++tile) {
    left[threadIdx.y][threadIdx.x] = a[row * n + tile * 16 + threadIdx.x];
    right[threadIdx.y][threadIdx.x] = b[(tile * 16 + threadIdx.y) * n + column];
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}
extern "C" __global__ void copy4(const float4* x, float4* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n / 4) z[i] = x[i];
}
extern "C" __global__ void copy2(const short* x, short* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i];
}
extern "C" __global__ void transposed(const float* x, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, rows = n / 1024;
  if (i < n) z[i] = x[(i % 1024) * rows + i / 1024];
}
extern "C" __global__ void stencil(const float* x, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > 1 && i < n - 2) z[i] = x[i - 2] + x[i - 1] + x[i] + x[i + 1] + x[i + 2];
}
extern "C" __global__ void shared(const float* x, float* z, int n) {
  __shared__ float part[256];
  int i = blockIdx.x * 256 + threadIdx.x;
  part[threadIdx.x] = x[i];
  __syncthreads();
  float sum = 0.0f;
  for (int k = 0; k < 256; ++k) sum += part[(threadIdx.x + k) & 255];
  z[i] = sum;
}
extern "C" __global__ void barriers(const float* x, float* z, int n) {
  __shared__ float part[256];
  int i = blockIdx.x * 256 + threadIdx.x;
  part[threadIdx.x] = x[i];
  for (int k = 0; k < 64; ++k) {
    __syncthreads();
    float next = part[(threadIdx.x + 1) & 255];
    __syncthreads();
    part[threadIdx.x] = next;
  }
  z[i] = part[threadIdx.x];
}
extern "C" __global__ void scatter(const float* x, const int* places, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(z + places[i], x[i]);
}
extern "C" __global__ void sums(const float* x, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = i < n ? x[i] : 0.0f;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  if (threadIdx.x % 32 == 0) atomicAdd(z, sum);
}
extern "C" __global__ void exponents(const float* x, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a = x[i];
  for (int k = 0; k < 50; ++k) a = expf(-a);
  z[i] = a;
}
extern "C" __global__ void pump(const float4* x, float4* y, int n, int times) {
  for (int k = 0; k < times; ++k)
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i];
}
"""
#: Kernels of which more sizes are timed.
MORE = ("copy4", "copy2", "transposed", "stencil", "shared", "barriers", "scatter", "sums", "exponents")


@functools.cache
def _compile(name: str) -> Any:
    return torch.cuda._compile_kernel(SOURCE, name)  # type: ignore[no-untyped-call]


def make_kernel(name: str, n: int) -> Call:
    """Make a kernel over n elements, or a product of n x n matrices."""
    if name.startswith("triton"):
        from recorded._timing_triton import make_triton

        return make_triton(name.removeprefix("triton "), n)
    kernel = _compile(name)
    if name == "product":
        a, b, c = (torch.randn(n, n, device="cuda") for _ in range(3))
        return lambda: kernel((n // 16, n // 16, 1), (16, 16, 1), (a, b, c, n))
    x, y, z = (torch.randn(n, device="cuda") for _ in range(3))
    blocks = (-(-n // 256), 1, 1)
    if name == "reduce":
        return lambda: kernel((-(-n // 512), 1, 1), (256, 1, 1), (x, z, n))
    if name in ("gather", "scatter"):
        places = torch.randint(0, n, (n,), device="cuda", dtype=torch.int32)
        return lambda: kernel(blocks, (256, 1, 1), (x, places, z, n))
    if name == "copy2":
        x, z = x.to(torch.int16), z.to(torch.int16)
    arguments = (x, y, z, n) if name == "saxpy" else (x, z, n)
    return lambda: kernel(blocks, (256, 1, 1), arguments)


def measure_beside(blocks: int, kind: str, n: int) -> dict[str, Any]:
    """Return the microseconds of products (or of an addition, n of 0) alone and beside a copying kernel of some blocks.

    The kernel stands for a collective, which takes multiprocessors and memory bandwidth.
    """
    pump, elements, times = _compile("pump"), 1 << 24, 40
    x, y = (torch.zeros(4 * elements, device="cuda") for _ in range(2))
    a, b = (draw(kind, n or 1 << 13, n or 1 << 14) for _ in range(2))
    call: Call = (lambda: torch.mm(a, b)) if n else (lambda: torch.add(a, b))
    side = torch.cuda.Stream()
    for _ in range(3):
        call()

    def time_call(count: int) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(count):
            call()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3 / count

    time_call(3)
    alone = time_call(20)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        start.record()
        pump((blocks, 1, 1), (512, 1, 1), (x, y, elements, times), stream=side)
        end.record()
    beside = time_call(max(3, int(8000 / alone)))
    ended = end.query()
    torch.cuda.synchronize()
    rate = 2 * x.numel() * 4 * times / start.elapsed_time(end) / 1e6
    return {"alone": alone, "beside": beside, "pump_gb_s": rate, "ended": ended}
