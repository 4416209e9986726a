"""Compiled code that names streams and events, and the estimates of time that its compiler makes."""

from __future__ import annotations

import pytest
import torch
from harness import CPU, MPS, MPS_FAITHFUL, VIRTUAL, child

needs_streams = pytest.mark.skipif(torch.__version__ < "2.13", reason="torch compiles no streams before 2.13")


def _data() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.rand(100, device="cuda")


def _beside(x: torch.Tensor, ordered: bool) -> torch.Tensor:
    """Work on a second stream, ordered by streams or by events."""
    stream, event = torch.cuda.Stream(), torch.cuda.Event()
    y = x + 1
    event.record()
    with torch.cuda.stream(stream):
        event.wait(stream) if ordered else stream.wait_stream(torch.cuda.current_stream())
        y = y * 2
        y.record_stream(stream)
    torch.cuda.current_stream().wait_stream(stream)
    return y.sin()


@needs_streams
@child(VIRTUAL, seconds=300)
@pytest.mark.parametrize("ordered", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_streams_and_events(ordered: bool) -> None:
    x = _data()
    torch.testing.assert_close(torch.compile(_beside, fullgraph=True)(x, ordered), _beside(x, ordered))


@needs_streams
@child(VIRTUAL, seconds=300)
def test_streams_in_backward() -> None:
    def loss(x: torch.Tensor) -> torch.Tensor:
        with torch.cuda.stream(torch.cuda.Stream()):
            return (x * 3).sin()

    x = _data()
    expected = torch.autograd.grad(loss(x.requires_grad_()).sum(), x)
    torch.testing.assert_close(torch.autograd.grad(torch.compile(loss)(x).sum(), x), expected)


@child(CPU.rarely(), VIRTUAL, MPS, MPS_FAITHFUL.rarely())
def test_speed_of_the_gpu() -> None:
    from torch._inductor import utils

    bandwidth = getattr(utils, "get_device_dram_gbps", None) or utils.get_gpu_dram_gbps
    assert bandwidth() > 0
    assert utils.get_device_tflops(torch.float16) >= utils.get_device_tflops(torch.float32) > 0
