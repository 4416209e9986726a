"""Functions with limits on the Apple GPU stay torch's own objects, and are looked at only where they fail."""

from __future__ import annotations

import gc
import pickle
import types
from typing import Any

import pytest
import torch
from harness import MPS, MPS_FAITHFUL, child

import torchdevice_cuda
from torchdevice_cuda.fallback.capabilities import refusals
from torchdevice_cuda.native import build

LATE = MPS_FAITHFUL.when("after")
#: Functions of C, and who holds them.
GUARDED = ((torch, "cumsum"), (torch, "sum"), (torch.linalg, "qr"), (torch.nn.functional, "conv2d"))
METHODS = ("cumsum", "mean", "sum", "topk")


@child(MPS, MPS_FAITHFUL)
def test_they_are_what_they_were() -> None:
    """Identity of functions matters to TorchScript, torch.compile and pickles."""
    for owner, name in GUARDED:
        function = getattr(owner, name)
        assert isinstance(function, types.BuiltinFunctionType), name
        assert pickle.loads(pickle.dumps(function)) is function
    for name in METHODS:
        assert name not in vars(torch.Tensor), name
        assert isinstance(getattr(torch.Tensor, name), types.MethodDescriptorType), name


def _refused(x: torch.Tensor) -> list[Any]:
    """List calls that the GPU refuses: functions and methods, arguments by name and by position."""
    wide = torch.float64
    return [
        torch.sum(x, dtype=wide).item(),
        x.cumsum(0, dtype=wide).tolist(),
        x.double().tolist(),
        torch.prod(x, dtype=wide).item(),
    ]


def _asked(x: torch.Tensor, monkeypatch: Any) -> int:
    """Count how often the device raises a refusal in three calls."""
    import torchdevice_cuda.fallback.guards as guards

    seen: list[BaseException] = []
    told = guards.refusal
    monkeypatch.setattr(guards, "refusal", lambda error: (seen.append(error), told(error))[1])
    for _ in range(3):
        torch.sum(x, dtype=torch.float64)
    return len(seen)


@child(MPS_FAITHFUL)
def test_a_refusal_is_met_once() -> None:
    refusals.clear()
    with pytest.MonkeyPatch.context() as monkeypatch:
        assert _asked(torch.rand(3, device="cuda"), monkeypatch) == 1
    assert str(torch.sum(torch.ones(3, device="cuda"), dtype=torch.float64).device) == "cuda:0"


@child(MPS_FAITHFUL)
def test_an_error_of_the_program_is_as_it_was() -> None:
    x = torch.rand(3, 3, device="cuda")
    for wrong in (
        lambda: torch.sum(x, 5),
        lambda: x.sum(5),
        lambda: x.sum(nothing=1),
        lambda: torch.linalg.qr(x, mode="q"),
    ):
        stock = pytest.raises((IndexError, TypeError, RuntimeError), wrong)
        assert "torchdevice_cuda" not in str(stock.value)
    assert x.sum().item() == pytest.approx(x.cpu().sum().item())


@child(MPS_FAITHFUL)
def test_no_argument_is_kept_alive() -> None:
    x = torch.rand(4, 4, device="cuda")
    gc.collect()
    before = torch.cuda.memory_allocated()
    for _ in range(50):
        x.sum(dtype=torch.float64)
        pytest.raises(IndexError, x.sum, 7)
    gc.collect()
    assert torch.cuda.memory_allocated() == before


@child(LATE, alone=True)
def test_without_anything_compiled() -> None:
    """Python wrappers do it where there is neither a library nor a compiler."""
    torchdevice_cuda.deactivate()
    stock, load = torch.cumsum, build.load

    def fails(kind: str, **options: Any) -> Any:
        if kind == "calls":
            raise build.BuildError("no compiler")
        return load(kind, **options)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(build, "load", fails)
        torchdevice_cuda.activate(driver="mps", policy="faithful")
        assert isinstance(torch.cumsum, types.FunctionType)
        wrapped = _refused(torch.arange(9, device="cuda").view(3, 3))
        torchdevice_cuda.deactivate()
        assert torch.cumsum is stock
    torchdevice_cuda.activate(driver="mps", policy="faithful")
    assert torch.cumsum is stock
    assert _refused(torch.arange(9, device="cuda").view(3, 3)) == wrapped


@child(LATE, alone=True)
def test_undone() -> None:
    """Calls are no longer watched, also through a method that was bound before."""
    x = torch.rand(3, device="cuda")
    bound = x.sum
    torchdevice_cuda.deactivate()
    for asked in (lambda: bound(dtype=torch.float64), lambda: torch.sum(x, dtype=torch.float64), x.double):
        with pytest.raises(TypeError, match="float64"):
            asked()
    assert bound().dtype is torch.float32
