"""``--check-streams error`` sees what kernels of the program access, in CUDA C++ and in Triton."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from harness import VIRTUAL, ChildConfig, child

if TYPE_CHECKING:
    import torch

    Kernel = Callable[[torch.Tensor, torch.Tensor], None]

CHECKED = ChildConfig("virtual checked", {"driver": "virtual", "check_streams": "error", "devices": 2})
BOTH = CHECKED.with_settings(streams=0)
ORDERED = VIRTUAL.with_settings(streams=0)
SIZE = 4096
SOURCE = """
extern "C" __global__ void twice(const float* x, float* y, int from, int n) {
  int i = from + blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
"""


@functools.cache
def compile_kernel() -> Callable[..., None]:
    import torch

    return torch.cuda._compile_kernel(SOURCE, "twice")  # type: ignore[no-any-return]


def twice(x: torch.Tensor, y: torch.Tensor, begin: int = 0, end: int = SIZE) -> None:
    compile_kernel()(grid=((end - begin) // 256, 1, 1), block=(256, 1, 1), args=[x, y, begin, end])


def find_kernel(language: str) -> Kernel:
    if language == "CUDA C++":
        return twice
    pytest.importorskip("triton")
    from stream_checks import triton_kernels

    return triton_kernels.twice


@contextlib.contextmanager
def race(*parts: str) -> Iterator[None]:
    from torchdevice_cuda import StreamRaceError

    with pytest.raises(StreamRaceError) as caught:
        yield
    for part in parts:
        assert part in str(caught.value)


def begin() -> tuple[torch.Tensor, torch.Tensor, torch.cuda.Stream]:
    """Return two tensors and a stream, after all earlier work and its findings: tests share a process."""
    import torch

    import torchdevice_cuda

    torch.cuda.synchronize()
    native = torchdevice_cuda.driver().native
    assert native is not None
    native.forget_races()
    tensors = torch.ones(SIZE, device="cuda"), torch.zeros(SIZE, device="cuda")
    torch.cuda.synchronize()
    return *tensors, torch.cuda.Stream()


LANGUAGES = pytest.mark.parametrize("language", ["CUDA C++", "Triton"])


@child(CHECKED, BOTH)
@LANGUAGES
@pytest.mark.parametrize("waits", [True, False])
def test_what_a_kernel_reads(language: str, waits: bool) -> None:
    import torch

    kernel = find_kernel(language)
    x, y, side = begin()
    x.mul_(3)
    if waits:
        side.wait_stream(torch.cuda.current_stream())
    missing = race("reads", "twice on stream", "aten::mul_ on the default stream")
    with contextlib.nullcontext() if waits else missing, torch.cuda.stream(side):
        kernel(x, y)
    torch.cuda.synchronize()
    assert not waits or y.sum().item() == 6 * SIZE


@child(CHECKED, BOTH)
@LANGUAGES
@pytest.mark.parametrize("waits", [True, False])
def test_what_a_kernel_writes(language: str, waits: bool) -> None:
    import torch

    kernel = find_kernel(language)
    x, y, side = begin()
    with torch.cuda.stream(side):
        kernel(x, y)
    if waits:
        torch.cuda.current_stream().wait_stream(side)
        assert y.sum().item() == 2 * SIZE
        return
    with race("reads", "aten::sum on the default stream", "may still be writing it", "twice on stream"):
        y.sum()
    torch.cuda.synchronize()


@child(CHECKED)
def test_kernels_of_parts_of_a_tensor() -> None:
    """Streams compute parts of the same tensors, which the kernels are given whole."""
    import torch

    x, y, _ = begin()
    streams = [torch.cuda.Stream() for _ in range(4)]
    parts = range(0, SIZE, SIZE // 4)
    for stream, at in zip(streams, parts, strict=True):
        with torch.cuda.stream(stream):
            x[at : at + SIZE // 4].mul_(at + 1)
            twice(x, y, at, at + SIZE // 4)
    torch.cuda.synchronize()
    assert y.sum().item() == sum(2 * (at + 1) * SIZE // 4 for at in parts)


# --------------------------------------------------------------------------------------- graphs
def capture(kernel: Kernel, x: torch.Tensor, y: torch.Tensor) -> torch.cuda.CUDAGraph:
    """Return a graph of a kernel, after a launch that has changed the memory."""
    import torch

    kernel(x, y)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(x, y)
    return graph


@child(CHECKED, BOTH)
@LANGUAGES
@pytest.mark.parametrize("waits", [True, False])
def test_graph_reads_input_that_another_stream_writes(language: str, waits: bool) -> None:
    import torch

    x, y, side = begin()
    graph = capture(find_kernel(language), x, y)
    with torch.cuda.stream(side):
        x.fill_(3)
    if waits:
        torch.cuda.current_stream().wait_stream(side)
    missing = race("reads", "twice of a graph on the default stream", "aten::fill_ on stream")
    with contextlib.nullcontext() if waits else missing:
        graph.replay()
    if waits:
        assert y.sum().item() == 6 * SIZE


@child(CHECKED, BOTH)
@LANGUAGES
@pytest.mark.parametrize("waits", [True, False])
def test_input_is_written_while_graph_may_read_it(language: str, waits: bool) -> None:
    import torch

    x, y, side = begin()
    graph = capture(find_kernel(language), x, y)
    graph.replay()
    if waits:
        side.wait_stream(torch.cuda.current_stream())
    missing = race("writes", "twice of a graph on the default stream", "aten::fill_ on stream")
    with contextlib.nullcontext() if waits else missing, torch.cuda.stream(side):
        x.fill_(3)


@child(CHECKED, BOTH)
@LANGUAGES
@pytest.mark.parametrize("waits", [True, False])
def test_result_is_read_while_graph_may_write_it(language: str, waits: bool) -> None:
    """The second replay writes what the first has written, and changes nothing."""
    import torch

    x, y, side = begin()
    graph = capture(find_kernel(language), x, y)
    x.fill_(3)
    graph.replay()
    torch.cuda.synchronize()
    graph.replay()
    if waits:
        side.wait_stream(torch.cuda.current_stream())
    missing = race("aten::sum", "may still be writing it", "twice of a graph on the default stream")
    with contextlib.nullcontext() if waits else missing, torch.cuda.stream(side):
        y.sum()


@child(CHECKED, BOTH)
@LANGUAGES
@pytest.mark.parametrize("waits", [True, False])
def test_streams_within_a_graph_with_kernels(language: str, waits: bool) -> None:
    import torch

    kernel = find_kernel(language)
    x, y, side = begin()
    kernel(x, y)
    torch.cuda.synchronize()
    graph, main = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph, stream=main):
        side.wait_stream(main)
        x.fill_(3)
        if waits:
            side.wait_stream(main)
        with torch.cuda.stream(side):
            kernel(x, y)
        main.wait_stream(side)
    missing = race("reads", "twice on stream", "aten::fill_ on stream")
    with contextlib.nullcontext() if waits else missing:
        graph.replay()
    graph.replay()
    torch.cuda.synchronize()
    assert y.sum().item() == 6 * SIZE


@child(ORDERED)
@LANGUAGES
@pytest.mark.parametrize("waits", [True, False])
def test_orders_of_a_graph_with_kernels_and_another_stream(language: str, waits: bool) -> None:
    """Without the detector, other results show the race."""
    import torch

    import torchdevice_cuda

    kernel = find_kernel(language)
    native = torchdevice_cuda.driver().native
    assert native is not None
    found = set()
    for seed in range(12):
        native.start_deferral(seed)
        x, y, side = begin()
        graph = capture(kernel, x, y)
        with torch.cuda.stream(side):
            x.fill_(3)
        if waits:
            torch.cuda.current_stream().wait_stream(side)
        graph.replay()
        found.add(y.sum().item())
        torch.cuda.synchronize()
    assert found == ({6 * SIZE} if waits else {2 * SIZE, 6 * SIZE})
