"""``--clock gpu``: kernels of other code take the time of what they are counted to do, or warn that they were not."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
from harness import ChildConfig, child
from harness.cuda_programs import load_kernels

H200 = ChildConfig("virtual clocked", {"driver": "virtual", "clock": "gpu", "gpu": "h200"})


REHEARSED = ChildConfig("virtual rehearsed", {"driver": "virtual", "rehearse": "on", "gpu": "h200"})
ELEMENTS = 1 << 24  # 64 MiB
CUDA_CPP = r"""
extern "C" __global__ void saxpy(const float* x, const float* y, float* z, double a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = float(a) * x[i] + y[i];
}
extern "C" __global__ void many(const float* x, const float* y, const float* v, const float* w, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i] + v[i] + w[i] + x[i + n] + y[i + n];
}
extern "C" __global__ void strided(const float* x, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i * 8];
}
__device__ float advance(float a) { return a * 1.0001f + 0.5f; }
extern "C" __global__ void repeat(const float* x, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a = x[i];
  for (int k = 0; k < 2000; ++k) a = advance(a);
  z[i] = a;
}
extern "C" __global__ void gather(const float* x, const int* places, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[places[i]];
}
extern "C" __global__ void share(const float* x, float* z, int n) {
  __shared__ float part[256];
  int i = blockIdx.x * 256 + threadIdx.x;
  part[threadIdx.x] = x[i];
  __syncthreads();
  float sum = 0.0f;
  for (int k = 0; k < 256; ++k) sum += part[(threadIdx.x + k) & 255];
  z[i] = sum;
}
"""
KERNELS = ("saxpy", "many", "strided", "repeat", "gather", "share")


def measure(call: Callable[[], object]) -> float:
    """Return the microseconds of a call on the GPU's clock; the first one compiles."""
    import torch

    call()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    torch.cuda._sleep(int(3e9))  # two seconds of the GPU's, in which this machine issues the call
    start.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3


def launch(name: str, count: int, *arguments: object) -> Callable[[], None]:
    """Return a launch of a kernel of CUDA_CPP, a thread for each element."""
    kernel = load_kernels(CUDA_CPP, *KERNELS)[name]
    return lambda: kernel((-(-count // 256), 1, 1), (256, 1, 1), (*arguments, count))


@child(H200)
def test_a_kernel_of_cuda_cpp_takes_the_time_of_what_it_reads_and_writes() -> None:
    import torch

    x, y, z = (torch.ones(ELEMENTS, device="cuda") for _ in range(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        saxpy = launch("saxpy", ELEMENTS, x, y, z, 2.0)
        took = measure(saxpy)
    assert z.unique().tolist() == [3]
    assert took == pytest.approx(measure(lambda: x + y), rel=0.35)
    half = ELEMENTS // 2
    many = measure(launch("many", half, x, y, x[half:], y[half:], z))
    assert many == pytest.approx(took * 5 / 6, rel=0.2)  # x[i + n] is v[i], and read once
    # Eight times the bytes for each element that is read: a GPU moves 32 at a time.
    assert measure(launch("strided", ELEMENTS // 8, x, z)) == pytest.approx(took * 9 / 24, rel=0.2)


@child(H200)
def test_a_kernel_of_cuda_cpp_takes_the_time_of_its_arithmetic() -> None:
    import torch

    from torchdevice_cuda.settings import gpus

    count = 1 << 16
    x, z = (torch.ones(count, device="cuda") for _ in range(2))
    flops = 2000 * 2 * count
    took = measure(launch("repeat", count, x, z))
    assert 1 < took / (flops / (gpus.find("h200").tflops["fp32"] * 1e6)) < 2.5


@child(H200)
def test_reading_here_and_there_takes_64_bytes_of_memory_each() -> None:
    import torch

    count = 1 << 24
    x, z = torch.ones(count, device="cuda"), torch.ones(count, device="cuda")
    in_order = measure(launch("gather", count, x, torch.arange(count, device="cuda").int(), z))
    random = measure(launch("gather", count, x, torch.randint(count, (count,), device="cuda").int(), z))
    # An H200 took 255.6 us for the second; the first reads as much as an addition.
    assert in_order < 65 and random == pytest.approx(255.6, rel=0.35)


@child(H200)
def test_a_kernel_of_cuda_cpp_waits_for_shared_memory() -> None:
    import torch

    count = 1 << 18
    x, z = (torch.ones(count, device="cuda") for _ in range(2))
    # An H200 took 40.6 us for four times as many.
    assert measure(launch("share", count, x, z)) == pytest.approx(40.6 / 4, rel=0.35)


@child(H200)
def test_a_kernel_of_cuda_cpp_in_a_graph_and_in_a_profile() -> None:
    import torch
    from torch.profiler import ProfilerActivity, profile

    x, y, z = (torch.ones(ELEMENTS, device="cuda") for _ in range(3))
    saxpy = launch("saxpy", ELEMENTS, x, y, z, 2.0)
    took = measure(saxpy)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        saxpy()
        saxpy()
    assert measure(graph.replay) == pytest.approx(2 * took, rel=0.1)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        saxpy()
        torch.cuda.synchronize()
    found = [e.time_range.elapsed_us() for e in profiled.events() if "saxpy" in e.name and "CUDA" in str(e.device_type)]
    assert found == [pytest.approx(took, rel=0.1)]


@child(REHEARSED)
def test_a_rehearsed_kernel_of_cuda_cpp_is_estimated_by_its_tensors() -> None:
    import torch

    import torchdevice_cuda

    x, y, z = (torch.ones(ELEMENTS, device="cuda") for _ in range(3))
    saxpy = launch("saxpy", ELEMENTS, x, y, z, 2.0)
    with pytest.warns(torchdevice_cuda.UnpredictedKernelWarning, match="saxpy is estimated by the sizes"):
        took = measure(saxpy)
    assert took == pytest.approx(measure(lambda: x + y), rel=0.35)


@child(H200)
def test_a_kernel_that_was_compiled_for_the_hosts_clock_warns_once_and_takes_a_launch() -> None:
    import os

    import torch

    import torchdevice_cuda
    from torchdevice_cuda.settings import variables

    os.environ.pop(variables.COUNT_KERNELS)
    twice = torch.cuda.jiterator._create_jit_fn("template <typename T> T twice(T a) { return 2 * a; }")
    x = torch.ones(ELEMENTS, device="cuda")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert twice(x)[5].item() == 2
        took = measure(lambda: twice(x))
    said = [str(one.message) for one in caught if one.category is torchdevice_cuda.UnpredictedKernelWarning]
    assert len(said) == 1 and "is not predicted: it counts as a launch" in said[0]
    assert took < 5


@child(H200)
def test_a_kernel_of_triton_takes_the_time_of_what_it_does() -> None:
    pytest.importorskip("triton")
    import torch
    from triton import jit, language

    @jit
    def saxpy(p, q, r, count, BLOCK: language.constexpr):  # type: ignore[no-untyped-def]
        i = language.program_id(0) * BLOCK + language.arange(0, BLOCK)
        inside = i < count
        language.store(r + i, language.load(p + i, mask=inside) * 2 + language.load(q + i, mask=inside), mask=inside)

    @jit
    def repeat(p, r, BLOCK: language.constexpr):  # type: ignore[no-untyped-def]
        i = language.program_id(0) * BLOCK + language.arange(0, BLOCK)
        a = language.load(p + i)
        for _ in range(2000):
            a = a * 1.0001 + 0.5
        language.store(r + i, a)

    @jit
    def product(p, q, r, SIZE: language.constexpr, BLOCK: language.constexpr):  # type: ignore[no-untyped-def]
        i = language.program_id(0) * BLOCK + language.arange(0, BLOCK)
        j, k = language.arange(0, BLOCK), language.arange(0, BLOCK)
        total = language.zeros((BLOCK, BLOCK), language.float32)
        for at in range(0, SIZE, BLOCK):
            left = language.load(p + i[:, None] * SIZE + at + k[None, :])
            total += language.dot(left, language.load(q + (at + k[:, None]) * BLOCK + j[None, :]))
        language.store(r + i[:, None] * BLOCK + j[None, :], total)

    x, y, z = (torch.ones(ELEMENTS, device="cuda") for _ in range(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", module="triton")
        took = measure(lambda: saxpy[(ELEMENTS // 1024,)](x, y, z, ELEMENTS, 1024))
        assert took == pytest.approx(measure(lambda: x + y), rel=0.35)
        assert z.unique().tolist() == [3]
        # In place: counting changes nothing.
        saxpy[(ELEMENTS // 1024,)](z, z, z, ELEMENTS, 1024)
        assert z.unique().tolist() == [9]
        rate = 66.9e6  # operations in a microsecond
        count = 1 << 16
        assert 1 < measure(lambda: repeat[(count // 1024,)](x, z, 1024)) / (2000 * 2 * count / rate) < 2.5
        p, q = (torch.ones(1 << 20, device="cuda", dtype=torch.float16) for _ in range(2))
        assert measure(lambda: product[(16,)](p, q, z, 1024, 64)) < 10
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        saxpy[(ELEMENTS // 1024,)](x, y, z, ELEMENTS, 1024)
    assert measure(graph.replay) == pytest.approx(took, rel=0.1)


@child(REHEARSED)
def test_a_rehearsed_kernel_of_triton_is_counted_and_not_run() -> None:
    pytest.importorskip("triton")
    import torch
    from triton import jit, language

    import torchdevice_cuda

    @jit
    def double(p, r, BLOCK: language.constexpr):  # type: ignore[no-untyped-def]
        i = language.program_id(0) * BLOCK + language.arange(0, BLOCK)
        language.store(r + i, language.load(p + i) * 2)

    x, y = torch.ones(ELEMENTS, device="cuda"), torch.zeros(100, device="cuda")
    with pytest.warns(torchdevice_cuda.UncomputedValueWarning, match="does not run the kernel double"):
        took = measure(lambda: double[(ELEMENTS // 1024,)](x, x, 1024))
    assert took == pytest.approx(measure(lambda: x * 2), rel=0.35)
    double[(1,)](x, y, 64)
    assert y.sum().item() == 0


@child(H200)
def test_a_compiled_function_warns() -> None:
    import torch

    import torchdevice_cuda

    x = torch.ones(1000, device="cuda")
    compiled = torch.compile(lambda x: x * 2 + 1)
    with pytest.warns(torchdevice_cuda.UnpredictedKernelWarning, match="not predicted"):
        assert compiled(x)[0].item() == 3


@child(H200)
def test_operators_of_pytorch_do_not_warn() -> None:
    import torch

    x = torch.ones(1000, device="cuda")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.nn.functional.dropout(x).sum().item()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            x.add_(1)
        graph.replay()
    assert x[0].item() == 2
