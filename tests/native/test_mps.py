"""The test double of an Apple GPU: its operators and no others, its refusals, its module."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import pytest
import torch
from harness import child
from torch import nn

from .bare import BARE_MPS, GIB

pytestmark = child(BARE_MPS)


def _x() -> torch.Tensor:
    return torch.ones(3, device="mps")


def test_torch_finds_it() -> None:
    assert torch.backends.mps.is_available()
    assert torch.accelerator.current_accelerator().type == "mps"


def test_tensors() -> None:
    x = _x()
    assert str(x.device) == "mps:0"
    assert x.is_mps
    assert (x + 1).tolist() == [2, 2, 2]


@child(BARE_MPS, alone=True)
def test_memory() -> None:
    kept = _x()
    assert torch.mps.current_allocated_memory() == 512
    assert torch.mps.driver_allocated_memory() == 2 << 20
    torch.mps.synchronize()
    del kept
    torch.mps.empty_cache()
    assert torch.mps.driver_allocated_memory() == 0


def test_events() -> None:
    a, b = torch.mps.Event(enable_timing=True), torch.mps.Event(enable_timing=True)
    a.record()
    b.record()
    assert a.elapsed_time(b) >= 0  # which waits; after b.synchronize() it may wait for ever on a Mac
    assert a.query()
    b.record()
    b.synchronize()
    assert b.query()


def _drawn() -> list[float]:
    return torch.rand(4, device="mps").tolist()


def test_seeds() -> None:
    torch.mps.manual_seed(3)
    first = _drawn()
    torch.mps.manual_seed(3)
    assert _drawn() == first


def test_random_state() -> None:
    state = torch.mps.get_rng_state()
    first = _drawn()
    torch.mps.set_rng_state(state)
    assert _drawn() == first


DOUBLES: dict[str, Callable[[], torch.Tensor]] = {
    "made": lambda: torch.ones(2, dtype=torch.float64, device="mps"),
    "double": lambda: _x().double(),
    "to": lambda: _x().to(torch.float64),
}


@pytest.mark.parametrize("double", DOUBLES)
def test_no_float64(double: str) -> None:
    words = (
        "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. Please use "
        "float32 instead."
    )
    with pytest.raises(TypeError) as caught:
        DOUBLES[double]()
    assert str(caught.value).startswith(words)


def test_operators_that_it_lacks() -> None:
    words = "The operator 'aten::_linalg_eigh.eigenvalues' is not currently implemented for the MPS device."
    with pytest.raises(NotImplementedError) as caught:
        torch.linalg.eigh(torch.eye(3, device="mps"))
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    "size, words", [(9 * GIB, "MPS backend out of memory (MPS allocated: "), (4 << 40, "Invalid buffer size: ")]
)
def test_memory_runs_out(size: int, words: str) -> None:
    kept = torch.empty(9 * GIB, dtype=torch.uint8, device="mps")  # of 16
    with pytest.raises(RuntimeError) as caught:
        torch.empty(size, dtype=torch.uint8, device="mps")
    assert type(caught.value) is RuntimeError
    assert str(caught.value).startswith(words)
    del kept


def test_training() -> None:
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 2)
    model = nn.Sequential(*layers).to("mps")
    model(torch.ones(2, 3, 8, 8, device="mps")).sum().backward()
    assert model[0].weight.grad.is_mps


@child(BARE_MPS.within(PYTORCH_ENABLE_MPS_FALLBACK="1"))
def test_fallback_to_the_cpu_when_allowed() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert torch.linalg.eigh(torch.eye(3, device="mps"))[0].is_mps
    assert "will fall back to run on the CPU" in str(caught[0].message)


def _seconds_of_convolution(dtype: torch.dtype) -> float:
    """Return the shortest of some times of a convolution's gradient."""
    x, weight = (
        torch.ones(4, 16, 24, 24, device="mps", dtype=dtype),
        torch.ones(16, 16, 3, 3, device="mps", dtype=dtype),
    )
    times = []
    for _ in range(5):
        inputs = [x.detach().requires_grad_(), weight.detach().requires_grad_()]
        begin = time.perf_counter()
        nn.functional.conv2d(*inputs, padding=1).sum().backward()
        times.append(time.perf_counter() - begin)
        assert inputs[1].grad is not None
        assert inputs[1].grad.dtype is dtype
    return min(times)


def test_half_precision_convolutions_take_no_longer_than_float32() -> None:
    wide = _seconds_of_convolution(torch.float32)
    for dtype in (torch.float16, torch.bfloat16):
        assert _seconds_of_convolution(dtype) < 15 * wide
