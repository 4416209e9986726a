"""``--clock gpu``: streams, events and synchronization keep the time that the GPU of the profile would need."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from harness import ChildConfig, child
from recorded import case_sets, store

H200 = ChildConfig("virtual clocked", {"driver": "virtual", "clock": "gpu", "gpu": "h200"})
T4 = ChildConfig("virtual clocked t4", {"driver": "virtual", "clock": "gpu", "gpu": "t4"})


def measure(call: Callable[[], Any], calls: int = 3) -> float:
    """Return the microseconds of one call between two events."""
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    call()
    torch.cuda.synchronize()
    torch.cuda._sleep(int(1.5e9))  # a second of the GPU's, in which this machine issues the calls
    start.record()
    for _ in range(calls):
        call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3 / calls


def find_recorded(name: str) -> tuple[float, Callable[[], Any]]:
    """Return a case's recorded microseconds, and its call."""
    cases = case_sets.load_set("timing")
    return store.read_answers(cases.record)[name]["us"], cases.module.make(name)


@child(H200)
@pytest.mark.parametrize(
    "name",
    [
        "add f32 16777216",
        "mm f32 1024x1024x1024",
        "sum f32 16777216",
        "layer_norm f32 4096x1024",
        "h2d pinned f32 16777216",
        "d2h pinned f32 16777216",
        "conv f32 32x64x56 -> 64 k3 s1 g1",
        "sdpa f32 12x12x197x64",
        "AdamW fused 50x1000000",
    ],
)
def test_an_operator_takes_about_the_time_that_was_recorded(name: str) -> None:
    recorded, call = find_recorded(name)
    assert measure(call) == pytest.approx(recorded, rel=0.35)


@child(H200)
def test_convolutions_without_tf32_take_longer() -> None:
    import torch

    image, layer = torch.randn(16, 128, 32, 32, device="cuda"), torch.nn.Conv2d(128, 256, 3, device="cuda")
    with torch.no_grad():
        fast = measure(lambda: layer(image))
        torch.backends.cudnn.allow_tf32 = False
        assert measure(lambda: layer(image)) > 3 * fast
        # cuBLAS has its own flag.
        torch.backends.cuda.matmul.allow_tf32 = True
        assert measure(lambda: layer(image)) > 3 * fast


@child(T4)
def test_another_gpu_takes_the_time_of_its_bandwidth() -> None:
    """A T4 has 320 GB/s, of which an addition of numbers beyond its cache reaches most."""
    import torch

    x, y = torch.zeros(2, 1 << 24, device="cuda")
    least = 3 * 4 * (1 << 24) / 320e9 * 1e6
    assert least < measure(lambda: torch.add(x, y)) < 1.5 * least


@child(H200)
def test_streams_overlap_unless_they_wait() -> None:
    import torch

    x = torch.zeros(1 << 24, device="cuda")
    sides = [torch.cuda.Stream() for _ in range(2)]

    def run(waits: bool) -> None:
        for i, side in enumerate(sides):
            side.wait_stream(sides[0] if waits and i else torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(8):
                    x.add(1)
        for side in sides:
            torch.cuda.current_stream().wait_stream(side)

    one = measure(lambda: x.add(1))
    assert measure(lambda: run(False)) == pytest.approx(8 * one, rel=0.4)
    assert measure(lambda: run(True)) == pytest.approx(16 * one, rel=0.3)


@child(H200)
def test_waiting_advances_the_clock_without_waiting() -> None:
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    began = time.monotonic()
    start.record()
    torch.cuda._sleep(int(60 * 1.5e9))  # a minute
    end.record()
    assert not end.query()
    torch.cuda.synchronize()
    assert end.query()
    assert start.elapsed_time(end) == pytest.approx(60e3, rel=0.01)
    assert time.monotonic() - began < 30


@child(H200)
def test_a_replay_takes_the_time_of_its_kernels_and_one_launch() -> None:
    import torch

    x = torch.zeros(1 << 24, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(5):
            x.add_(1)
    assert measure(graph.replay) == pytest.approx(5 * measure(lambda: x.add_(1), 20), rel=0.3)


@child(H200)
def test_reading_a_result_waits_for_it() -> None:
    import torch

    x = torch.zeros(1 << 26, device="cuda")
    done = torch.cuda.Event()
    y = x.add(1)
    done.record()
    y[0].item()
    assert done.query()


@child(H200)
def test_tensors_without_sizes_or_dimensions_are_timed() -> None:
    import torch

    rows = [torch.ones(2, 3, device="cuda"), torch.ones(4, 3, device="cuda")]
    assert (torch.nested.nested_tensor(rows) * 2)[1].sum().item() == 24
    assert torch.tensor(3.0, device="cuda").softmax(0).item() == 1


def test_deactivating_restores_the_hosts_clock() -> None:
    from harness import python

    program = """
import time, torchdevice_cuda
torchdevice_cuda.activate(driver="virtual", clock="gpu")
import torch
torch.zeros(4, device="cuda").add_(1)
torchdevice_cuda.deactivate()
torchdevice_cuda.activate(driver="virtual", clock="host")
began = time.monotonic()
torch.cuda._sleep(int(0.3 * 1.5e9))
torch.cuda.synchronize()
print(time.monotonic() - began >= 0.3)
"""
    assert python("-c", program).out.strip() == "True"
