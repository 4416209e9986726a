"""Tensors of the CPU among the GPU's: refused as CUDA does, whoever computes."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import torch
from harness import MPS_FAITHFUL, VIRTUAL, child

from .seeing import raised

on_mps = child(MPS_FAITHFUL)


def _c(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, device="cuda")


def _spd() -> torch.Tensor:
    return torch.eye(3, device="cuda") * 2


def _lu(b: torch.Tensor) -> torch.Tensor:
    return torch.linalg.lu_solve(*torch.linalg.lu_factor(_spd()), b)


#: Who computes, and what is asked of it.
MIXED: dict[str, Callable[[], object]] = {
    # The process would end.
    "solve_triangular": lambda: torch.linalg.solve_triangular(_spd(), torch.ones(3, 2), upper=True),
    # The CPU computes for the GPU.
    "lu_solve": lambda: _lu(torch.ones(3, 2)),
    "lu_solve, the matrix": lambda: torch.linalg.lu_solve(
        torch.eye(3), torch.arange(1, 4, dtype=torch.int32, device="cuda"), _c(3, 2)
    ),
    "ormqr": lambda: torch.ormqr(_c(3, 3), _c(3), torch.ones(3, 3)),
    "out": lambda: torch.ormqr(_c(3, 3), _c(3), _c(3, 3), out=torch.ones(3, 3)),
    # Metal says so, to a function that is guarded.
    "scatter_reduce": lambda: _c(3).scatter_reduce(0, torch.tensor([0, 1]), _c(2), "sum"),
}


#: What the virtual GPU says, which is CUDA's, as far as the backend knows it: Metal does not say which argument it is.
SAID_BY_METAL = {
    "scatter_reduce": "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
}


@child(VIRTUAL)
@pytest.mark.parametrize("call", MIXED)
def test_cuda_refuses(call: str) -> None:
    name, words = raised(MIXED[call]) or ("", "")
    assert name == "RuntimeError"
    assert words.startswith("Expected all tensors to be on the same device")


@on_mps
@pytest.mark.parametrize("call", MIXED)
def test_refused_in_the_same_words(call: str) -> None:
    name, words = raised(MIXED[call]) or ("", "")
    assert name == "RuntimeError"
    if call in SAID_BY_METAL:
        assert words == SAID_BY_METAL[call]
    else:
        assert words.startswith("Expected all tensors to be on the same device, but got ")


@child(MPS_FAITHFUL, as_in=VIRTUAL)
def test_word_for_word() -> dict[str, str]:
    return {call: (raised(function) or ("", ""))[1] for call, function in MIXED.items() if call not in SAID_BY_METAL}


@on_mps
def test_numbers_of_the_cpu_may_be_anywhere() -> None:
    number = torch.tensor(2.0)
    assert (_c(2) * number).tolist() == [2, 2]
    assert torch.heaviside(_c(2) * 0, number).tolist() == [2, 2]


@on_mps
@pytest.mark.skipif(sys.version_info < (3, 12), reason="the interpreter tells of errors from 3.12 on")
def test_operators_that_nobody_guards_from_312() -> None:
    name, said = raised(lambda: _c(2, 2) @ torch.ones(2, 2)) or ("", "")
    assert name == "RuntimeError"
    assert said == "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"


NATIVE = MPS_FAITHFUL.with_settings(identity="native")


@child(NATIVE)
def test_the_double_compares_as_little_as_a_mac() -> None:
    gpu, cpu = torch.ones(2, 2, device="mps"), torch.ones(2, 2)
    assert raised(lambda: gpu @ cpu) == ("RuntimeError", "Passed CPU tensor to MPS op")
    assert "at least two devices, mps:0 and cpu!" in raised(lambda: gpu + cpu)[1]
    kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    assert kernel("aten::linalg_svd", "MPS")
    assert kernel("aten::linalg_svd.U", "MPS")
