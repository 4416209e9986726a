"""Tensors of the CPU among the GPU's: refused as CUDA does, whoever computes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest
import torch
from harness import MPS_FAITHFUL, VIRTUAL, child

import torchdevice_cuda

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
    # Metal says so, but not of which argument: to a function that is guarded, and to others.
    "scatter_reduce": lambda: _c(3).scatter_reduce(0, torch.tensor([0, 1]), _c(2), "sum"),
    "matmul": lambda: _c(2, 2) @ torch.ones(2, 2),
    "linear": lambda: torch.nn.functional.linear(torch.ones(2, 2), _c(2, 2), _c(2)),
    "stack": lambda: torch.stack([_c(2), torch.ones(2)]),
    "embedding": lambda: torch.nn.functional.embedding(torch.tensor([0, 1]), _c(2, 2)),
    "layer_norm": lambda: torch.nn.functional.layer_norm(_c(2, 2), (2,), torch.ones(2)),
    "in a method": lambda: _c(2, 2).gather(0, torch.tensor([[0, 1]])),
}
#: The operators that compare devices without naming an argument.
UNNAMED: dict[str, Callable[[], object]] = {
    "add": lambda: _c(2) + torch.ones(2),
    "in place": lambda: _c(2).add_(torch.ones(2)),
    "lerp": lambda: torch.lerp(_c(2), torch.ones(2), 0.5),
}
#: A dtype that neither takes: the kernel's name is CUDA's.
DTYPES: dict[str, Callable[[], object]] = {
    "gelu": lambda: torch.nn.functional.gelu(_c(2).long()),
    "floor_divide": lambda: _c(2).bool() // _c(2).bool(),
    "less": lambda: _c(2).cfloat() < _c(2).cfloat(),
    "svd": lambda: torch.linalg.svd(_c(2, 2).half()),
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
    assert words.startswith("Expected all tensors to be on the same device, but got ")


@child(MPS_FAITHFUL, as_in=VIRTUAL)
def test_word_for_word() -> dict[str, tuple[str, str] | None]:
    return {call: raised(function) for call, function in (MIXED | UNNAMED | DTYPES).items()}


@on_mps
def test_what_failed_is_freed() -> None:
    x = _c(2, 2)
    freed = weakref.ref(x)
    with pytest.raises(RuntimeError):
        x @ torch.ones(2, 2)
    del x
    gc.disable()
    assert freed() is None


@on_mps
def test_the_cpus_own_errors_keep_their_words() -> None:
    assert '"lt_cpu"' in raised(lambda: torch.ones(2).cfloat() < torch.ones(2).cfloat())[1]


@child(MPS_FAITHFUL.when("after"))
def test_deactivation_leaves_errors_to_metal() -> None:
    x = _c(2, 2)
    torchdevice_cuda.deactivate()
    assert raised(lambda: x @ torch.ones(2, 2)) == ("RuntimeError", "Passed CPU tensor to MPS op")


@on_mps
def test_numbers_of_the_cpu_may_be_anywhere() -> None:
    number = torch.tensor(2.0)
    assert (_c(2) * number).tolist() == [2, 2]
    assert torch.heaviside(_c(2) * 0, number).tolist() == [2, 2]


NATIVE = MPS_FAITHFUL.with_settings(identity="native")


@child(NATIVE)
def test_the_double_compares_as_little_as_a_mac() -> None:
    gpu, cpu = torch.ones(2, 2, device="mps"), torch.ones(2, 2)
    assert raised(lambda: gpu @ cpu) == ("RuntimeError", "Passed CPU tensor to MPS op")
    assert "at least two devices, mps:0 and cpu!" in raised(lambda: gpu + cpu)[1]
    kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    assert kernel("aten::linalg_svd", "MPS")
    assert kernel("aten::linalg_svd.U", "MPS")
