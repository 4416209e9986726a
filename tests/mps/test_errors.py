"""Errors of the Apple GPU are CUDA's: out of memory inside operators, and texts that name the device."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness import BOTH_POLICIES, MPS_FAITHFUL, child, outcome
from torch import nn

import torchdevice_cuda
from torchdevice_cuda.translate.core.errors import in_cudas_words

from .seeing import raised

#: Half of it may be used.
SMALL = MPS_FAITHFUL.with_settings(memory="64MiB")
LATE = MPS_FAITHFUL.when("after")
told_of_errors = pytest.mark.skipif(sys.version_info < (3, 12), reason="the interpreter tells of errors from 3.12 on")
before = pytest.mark.skipif(sys.version_info >= (3, 12), reason="every error is seen as it is raised")


def _work(mebibytes: int) -> torch.Tensor:
    """The operator, not the factory, is what memory runs out for."""
    torch.cuda.set_per_process_memory_fraction(0.5)
    a = torch.ones(mebibytes << 20, dtype=torch.uint8, device="cuda")
    return a + 1


def _ooms() -> int:
    torch.cuda.init()  # before it there are no statistics
    return torch.cuda.memory_stats()["num_ooms"]


#: What programs catch. Each is asked for while the error is on its way, as an ``except`` clause does.
CAUGHT = {
    "torch.cuda.OutOfMemoryError": lambda: torch.cuda.OutOfMemoryError,
    "torch.OutOfMemoryError": lambda: torch.OutOfMemoryError,
    "one of several": lambda: (ValueError, torch.cuda.OutOfMemoryError),
}


@child(SMALL)
@pytest.mark.parametrize("caught", CAUGHT)
def test_retry_loops(caught: str) -> None:
    ooms, size = _ooms(), 24
    while True:
        try:
            _work(size)
            break
        except CAUGHT[caught]() as error:
            assert str(error).startswith("CUDA out of memory.")
            assert isinstance(error, torch.cuda.OutOfMemoryError)
            assert isinstance(error, torch.OutOfMemoryError)
            assert isinstance(error, RuntimeError)
            torch.cuda.empty_cache()
            size //= 2
    assert size == 12
    assert _ooms() == ooms + 1


def _fail() -> None:
    raise RuntimeError("CUDA out of memory. Or so says the program itself.")


OTHERS = {
    "shapes": (lambda: torch.ones(2, device="cuda") @ torch.ones(3, device="cuda"), "RuntimeError"),
    "the program's own": (_fail, "RuntimeError"),
    "no such attribute": (lambda: torch.ones(2, device="cuda").nothing, "AttributeError"),
}


@child(MPS_FAITHFUL)
@pytest.mark.parametrize("other", OTHERS)
def test_other_errors_are_not_caught(other: str) -> None:
    ooms, (function, expected) = _ooms(), OTHERS[other]
    try:
        function()
    except torch.cuda.OutOfMemoryError:
        raise AssertionError("taken for out of memory") from None
    except Exception as error:
        assert type(error).__name__ == expected
    else:
        raise AssertionError("no error")
    assert _ooms() == ooms


@child(MPS_FAITHFUL)
def test_the_class_is_torchs() -> None:
    assert torch.cuda.OutOfMemoryError is torch.OutOfMemoryError
    assert torch.cuda.OutOfMemoryError.__name__ == "OutOfMemoryError"
    assert issubclass(torch.cuda.OutOfMemoryError, RuntimeError)


class _Greedy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, t: torch.Tensor) -> torch.Tensor:
        return t.clone()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.zeros([64 << 20], dtype=torch.uint8, device="mps")[:2] + g


@child(SMALL)
def test_backward() -> None:
    """The backward pass is one call: its errors are translated on every Python, also for those that look at the text.

    ``should_reduce_batch_size`` of accelerate asks for a RuntimeError of one argument that has these words.
    """
    torch.cuda.set_per_process_memory_fraction(0.5)
    x = torch.ones(2, device="cuda", requires_grad=True)
    with pytest.raises(RuntimeError) as caught:
        _Greedy.apply(x).sum().backward()
    assert len(caught.value.args) == 1
    assert "CUDA out of memory." in caught.value.args[0]
    assert isinstance(caught.value, torch.cuda.OutOfMemoryError)


@told_of_errors
@child(SMALL)
def test_operators_from_312() -> None:
    ooms = _ooms()
    name, words = raised(lambda: _work(24)) or ("", "")
    assert name == "OutOfMemoryError"
    assert words.startswith("CUDA out of memory.")
    assert _ooms() == ooms + 1


@told_of_errors
@child(SMALL)
def test_a_class_that_was_bound_before_from_312() -> None:
    bound_before = torch.OutOfMemoryError
    with pytest.raises(bound_before) as caught:
        _work(24)
    assert type(caught.value).__name__ == "OutOfMemoryError"
    assert len(caught.value.args) == 1


@told_of_errors
@child(MPS_FAITHFUL)
def test_mixed_devices_from_312() -> None:
    mixed = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    name, words = raised(lambda: torch.ones(2, device="cuda") + torch.ones(2)) or ("", "")
    assert name == "RuntimeError"
    assert words.partition(".")[0] == mixed


#: Calls of plain operators that torch refuses in words about devices.
MIXED: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "add": lambda g, c: g + c,
    "matrix product": lambda g, c: g @ c.T,
    "cat": lambda g, c: torch.cat([g, c]),
    "module": lambda g, c: nn.Linear(2, 2).cuda()(c),
    "recurrent": lambda g, c: nn.LSTM(2, 2).cuda()(c),
    "index": lambda g, c: g.index_select(0, c[0].long()),
    "gradient": lambda g, c: setattr(g.requires_grad_(), "grad", c),
    "out": lambda g, c: torch.add(g, g, out=c),
    "storage": lambda g, c: g.untyped_storage().copy_("x"),
}


def _shown(case: str) -> str:
    """Return the text that a program prints for an unexpected error."""
    try:
        MIXED[case](torch.ones(2, 2, device="cuda"), torch._C._VariableFunctions.ones(2, 2))
    except Exception:
        return traceback.format_exc().splitlines()[-1]
    raise AssertionError("no error")


@child(*BOTH_POLICIES)
@pytest.mark.parametrize("case", MIXED)
def test_errors_that_are_shown_name_what_the_program_knows(case: str) -> None:
    assert "mps" not in _shown(case).lower()


def _fail_in_a_thread() -> None:
    thread = threading.Thread(target=lambda: torch.ones(2, device="cuda") @ torch._C._VariableFunctions.ones(2))
    thread.start()
    thread.join()


@pytest.mark.native
@pytest.mark.mps
def test_errors_that_nobody_caught_are_shown_so() -> None:
    error = outcome(_fail_in_a_thread, MPS_FAITHFUL).err.splitlines()[-1]
    assert "different from other tensors on cuda:0" in error


def _tools() -> list[str | None]:
    return [sys.monitoring.get_tool(tool) for tool in range(6)]


@told_of_errors
@child(LATE, alone=True)
def test_undone_from_312() -> None:
    assert "torchdevice_cuda" in _tools()
    torchdevice_cuda.deactivate()
    assert "torchdevice_cuda" not in _tools()


@before
@child(LATE, alone=True)
def test_undone() -> None:
    assert "OutOfMemoryError" not in vars(torch)
    torchdevice_cuda.deactivate()
    assert "OutOfMemoryError" in vars(torch)
    assert torch.OutOfMemoryError is torch._C.OutOfMemoryError
    assert torch.cuda.OutOfMemoryError is torch._C.OutOfMemoryError


DIFFERENT = "Expected all tensors to be on the same device, but got mat2 is on cpu, different from other tensors on "


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "Expected a 'mps' device type for generator but found 'cpu'",
            "Expected a 'cuda' device type for generator but found 'cpu'",
        ),
        (
            DIFFERENT + "mps:0 (when checking argument in method wrapper_MPS_mm)",
            DIFFERENT + "cuda:0 (when checking argument in method wrapper_CUDA_mm)",
        ),
        (
            "Input type (torch.FloatTensor) and weight type (MPSFloatType) should be the same",
            "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same",
        ),
        (
            "Input and hidden tensors are not at the same device, found input at mps:0",
            "Input and hidden tensors are not at the same device, found input at cuda:0",
        ),
        ("can't assign a str to a torch.mps.FloatTensor", "can't assign a str to a torch.cuda.FloatTensor"),
        (
            "Placeholder storage has not been allocated on MPS device!",
            "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
        ),
    ],
)
def test_words(said: str, shown: str) -> None:
    assert in_cudas_words(said) == shown


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("can't assign a str to a torch.mps.FloatTensor", "can't assign a str to a torch.FloatTensor"),
        (
            DIFFERENT + "mps:0 (when checking argument in method wrapper_MPS_mm)",
            DIFFERENT + "cpu (when checking argument in method wrapper_CPU_mm)",
        ),
        (
            "Input type (MPSByteType) and bias type (MPSFloatType) should be the same",
            "Input type (torch.ByteTensor) and bias type (torch.FloatTensor) should be the same",
        ),
    ],
)
def test_words_for_a_program_that_has_not_asked_for_cuda(said: str, shown: str) -> None:
    assert in_cudas_words(said, on_cpu=True) == shown


@pytest.mark.parametrize(
    "said",
    [
        "the program's own words on mps:0",
        "The operator 'aten::eigh' is not currently implemented for the MPS device",
        "Cannot convert a MPS Tensor to float64 dtype",
        "mat1 and mat2 shapes cannot be multiplied",
    ],
)
def test_other_words_stay(said: str) -> None:
    assert in_cudas_words(said) is said


def _wrong_generator() -> torch.Tensor:
    return torch.rand(3, generator=torch.Generator("cuda"))


@child(MPS_FAITHFUL)
def test_a_program_that_sees_cuda_reads_of_cuda() -> None:
    with pytest.raises(RuntimeError, match="'cuda'$"):
        _wrong_generator()


@child(MPS_FAITHFUL.with_settings(identity="native"))
def test_native_identity_keeps_the_words() -> None:
    with pytest.raises(RuntimeError, match="'mps'$"):
        _wrong_generator()
