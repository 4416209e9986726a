"""float64 and complex128 on a GPU that has neither, by the setting."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable

import numpy
import pytest
import torch
from harness import MPS_FAITHFUL, ChildConfig, child
from torch import nn

from torchdevice_cuda.report.departures import departures

from .seeing import left, real

on_mps = child(MPS_FAITHFUL)


def _single() -> torch.Tensor:
    return torch.ones(3, device="cuda", requires_grad=True)


#: What gives float64 on CUDA.
WAYS: dict[str, Callable[[], torch.Tensor]] = {
    "factory": lambda: torch.zeros(2, dtype=torch.float64, device="cuda"),
    "random": lambda: torch.rand(2, dtype=torch.float64, device="cuda"),
    "data": lambda: torch.tensor(numpy.ones(2), device="cuda"),
    "as_tensor": lambda: torch.as_tensor(numpy.ones(2), device="cuda"),
    "like": lambda: torch.zeros_like(_single(), dtype=torch.float64),
    "new": lambda: _single().new_zeros(2, dtype=torch.float64),
    "double": lambda: _single().double(),
    "to dtype": lambda: _single().to(torch.float64),
    "to both": lambda: torch.ones(2).to("cuda", torch.float64),
    "move": lambda: torch.ones(2, dtype=torch.float64).to("cuda"),
    "cuda": lambda: torch.ones(2, dtype=torch.float64).cuda(),
    "type": lambda: _single().type(torch.float64),
    "legacy": lambda: torch.cuda.DoubleTensor(2),
    "module": lambda: nn.Linear(2, 2).cuda().double().weight,
    "module dtype": lambda: nn.Linear(2, 2, dtype=torch.float64).cuda().weight,
    "sum": lambda: _single().sum(dtype=torch.float64),
    "cumsum": lambda: torch.cumsum(_single(), 0, dtype=torch.float64),
    "power": lambda: _single().float_power(2),
}
#: What float64 and complex128 become, by the setting; to the program they are on CUDA.
BECOMES = {
    "downcast": (torch.float32, torch.complex64),
    "cpu": (torch.float64, torch.complex128),
}
PLACES = [MPS_FAITHFUL.with_settings(float64=choice) for choice in BECOMES]


@child(*PLACES)
@pytest.mark.parametrize("way", WAYS)
def test_float64_by_setting(place: ChildConfig, way: str) -> None:
    dtype, _ = BECOMES[place.settings["float64"]]
    made = WAYS[way]()
    assert made.dtype is dtype
    assert made.device == torch.device("cuda:0")
    assert real(made) == "mps"


def _complex() -> torch.Tensor:
    return torch.ones(3, dtype=torch.complex64, device="cuda")


def _on_cpu() -> torch.Tensor:
    return torch.ones(2, dtype=torch.complex128)


def _loaded() -> torch.Tensor:
    file = io.BytesIO()
    torch.save(_on_cpu(), file)
    file.seek(0)
    return torch.load(file, map_location="cuda")


#: What gives complex128 on CUDA. MPS refuses some of them by itself, and makes the rest, with which nothing computes.
COMPLEX_WAYS: dict[str, Callable[[], torch.Tensor]] = {
    "factory": lambda: torch.zeros(2, dtype=torch.complex128, device="cuda"),
    "strided": lambda: torch.empty_strided((2,), (1,), dtype=torch.complex128, device="cuda"),
    "data": lambda: torch.tensor(_on_cpu().numpy(), device="cuda"),
    "as_tensor": lambda: torch.as_tensor(_on_cpu().numpy(), device="cuda"),
    "like": lambda: torch.zeros_like(_complex(), dtype=torch.complex128),
    "new": lambda: _complex().new_zeros(2, dtype=torch.complex128),
    "new strided": lambda: _complex().new_empty_strided((2,), (1,), dtype=torch.complex128),
    "cdouble": lambda: _complex().cdouble(),
    "to dtype": lambda: _complex().to(torch.complex128),
    "to both": lambda: torch.ones(2).to("cuda", torch.complex128),
    "move": lambda: _on_cpu().to("cuda"),
    "cuda": lambda: _on_cpu().cuda(),
    "type": lambda: _complex().type(torch.complex128),
    "module": lambda: nn.Linear(2, 2, dtype=torch.complex128).cuda().weight,
    "parameter": lambda: nn.Parameter(_on_cpu()).to("cuda"),
    "checkpoint": _loaded,
}


@child(*PLACES)
@pytest.mark.parametrize("way", COMPLEX_WAYS)
def test_complex128_by_setting(place: ChildConfig, way: str) -> None:
    _, dtype = BECOMES[place.settings["float64"]]
    made = COMPLEX_WAYS[way]()
    assert made.dtype is dtype
    assert made.device == torch.device("cuda:0")
    assert real(made) == "mps"


#: What makes a tensor whose gradient is asked for at once.
LEAVES: dict[str, Callable[[], torch.Tensor]] = {
    "factory": lambda: torch.ones(2, dtype=torch.float64, device="cuda", requires_grad=True),
    "data": lambda: torch.tensor(numpy.ones(2), device="cuda", requires_grad=True),
    "like": lambda: torch.ones_like(torch.ones(2, device="cuda"), dtype=torch.float64, requires_grad=True),
    "new": lambda: torch.ones(2, device="cuda").new_ones(2, dtype=torch.float64, requires_grad=True),
}


@child(*PLACES)
@pytest.mark.parametrize("way", LEAVES)
def test_a_tensor_created_with_a_gradient_gets_it(way: str) -> None:
    leaf = LEAVES[way]()
    (leaf * 3).sum().backward()
    assert leaf.grad.tolist() == [3, 3]


@on_mps
def test_the_double_takes_complex128_where_a_mac_does() -> None:
    assert torch.ops.aten.empty_strided((2,), (1,), dtype=torch.complex128, device="mps").dtype is torch.complex128


@child(MPS_FAITHFUL.with_settings(float64="raise"))
@pytest.mark.parametrize("way", WAYS)
def test_raise(way: str) -> None:
    with pytest.raises(TypeError, match="^Cannot convert a MPS Tensor to float64 dtype"):
        WAYS[way]()


@on_mps
def test_warnings_come_once_per_line() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            torch.ones(2, device="cuda").double()
        torch.zeros(1, dtype=torch.float64, device="cuda")
    assert [str(warning.message).split(":")[0] for warning in caught] == ["the GPU has no float64"] * 2
    assert {warning.filename for warning in caught} == {__file__}


@on_mps
def test_every_one_is_counted() -> None:
    departures.clear()
    for _ in range(3):
        torch.ones(2, device="cuda").double()
    torch.zeros(1, dtype=torch.float64, device="cuda")
    assert [4, "float64", "float32", "the GPU has no float64"] in left()


@on_mps
def test_gradients_flow_through_a_downcast() -> None:
    x = _single()
    (x.double() * 2).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


@on_mps
def test_gradients_flow_back_to_float64_on_the_cpu() -> None:
    y = torch.ones(3, dtype=torch.float64, requires_grad=True)
    (y.cuda() * 3).sum().backward()
    assert y.grad.tolist() == [3, 3, 3]
    assert y.grad.dtype is torch.float64


@on_mps
def test_checkpoints_with_doubles() -> None:
    file = io.BytesIO()
    torch.save(torch.arange(3, dtype=torch.float64)[1:], file)
    file.seek(0)
    loaded = torch.load(file, map_location="cuda")
    assert loaded.dtype is torch.float32
    assert loaded.tolist() == [1, 2]
    assert loaded.is_cuda


WRONG = {
    "dtype": (lambda: torch.zeros(2, dtype="float64", device="cuda"), TypeError),
    "size": (lambda: torch.zeros(-1, device="cuda"), RuntimeError),
    "device": (lambda: torch.ones(2, device="cuda").to("nonsense"), RuntimeError),
    "dimension": (lambda: torch.ones(2, device="cuda").sum(9), IndexError),
}


@on_mps
@pytest.mark.parametrize("wrong", WRONG)
def test_errors_of_the_program_are_its_own(wrong: str) -> None:
    function, kind = WRONG[wrong]
    with pytest.raises(kind) as caught:
        function()
    assert type(caught.value) is kind
