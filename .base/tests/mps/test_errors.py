"""Errors of the Apple GPU are CUDA's: out of memory inside operators, and texts that name the device."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from torchdevice_cuda.translate.words import in_cudas_words

told_of_errors = pytest.mark.skipif(sys.version_info < (3, 12), reason="the interpreter tells of errors from 3.12 on")
before = pytest.mark.skipif(sys.version_info >= (3, 12), reason="every error is seen as it is raised")
#: The operator, not the factory, is what memory runs out for.
PROGRAM = """
torch.cuda.set_per_process_memory_fraction(0.5)
def work(size):
    a = torch.ones(size << 20, dtype=torch.uint8, device="cuda")
    return a + 1
"""


def test_retry_loops(on_mps: Callable) -> None:
    body = """
    def largest(size, kind):
        while True:
            try:
                work(size)
                return size
            except kind() as error:
                seen.append([str(error).partition(".")[0], isinstance(error, torch.cuda.OutOfMemoryError),
                             isinstance(error, torch.OutOfMemoryError), isinstance(error, RuntimeError)])
                torch.cuda.empty_cache(); size //= 2
    seen = []
    found = [largest(24, lambda: torch.cuda.OutOfMemoryError), largest(24, lambda: torch.OutOfMemoryError),
             largest(24, lambda: (ValueError, torch.cuda.OutOfMemoryError))]
    result = [found, seen, torch.cuda.memory_stats()["num_ooms"]]
    """
    found, seen, ooms = on_mps(PROGRAM + _dedented(body), memory="64MiB")
    assert found == [12, 12, 12] and ooms == len(seen) == 3
    assert seen == [["CUDA out of memory", True, True, True]] * 3


def test_other_errors_are_not_caught(on_mps: Callable) -> None:
    body = """
    def kind(make):
        try:
            make()
        except torch.cuda.OutOfMemoryError:
            return "out of memory"
        except Exception as error:
            return type(error).__name__
    def fail(): raise RuntimeError("CUDA out of memory. Or so says the program itself.")
    x = torch.ones(2, device="cuda")
    result = [kind(lambda: x @ torch.ones(3, device="cuda")), kind(fail), kind(lambda: x.nothing),
              torch.cuda.memory_stats()["num_ooms"], torch.cuda.OutOfMemoryError is torch.OutOfMemoryError,
              torch.cuda.OutOfMemoryError.__name__, issubclass(torch.cuda.OutOfMemoryError, RuntimeError)]
    """
    found = on_mps(body)
    assert found == ["RuntimeError", "RuntimeError", "AttributeError", 0, True, "OutOfMemoryError", True]


def test_backward(on_mps: Callable) -> None:
    """The backward pass is one call: its errors are translated on every Python, also for those that look at the text.

    ``should_reduce_batch_size`` of accelerate asks for a RuntimeError of one argument that has these words.
    """
    body = """
    torch.cuda.set_per_process_memory_fraction(0.5)
    class Greedy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t): return t.clone()
        @staticmethod
        def backward(ctx, g): return (torch.ops.aten.zeros([64 << 20], dtype=torch.uint8, device="mps")[:2] + g)
    x = torch.ones(2, device="cuda", requires_grad=True)
    try:
        Greedy.apply(x).sum().backward()
    except Exception as error:
        result = [isinstance(error, RuntimeError), len(error.args), " out of memory." in error.args[0],
                  "CUDA out of memory." in error.args[0], isinstance(error, torch.cuda.OutOfMemoryError)]
    """
    assert on_mps(body, memory="64MiB") == [True, 1, True, True, True]


@told_of_errors
def test_operators_from_312(on_mps: Callable) -> None:
    body = """
    from torch import OutOfMemoryError as bound_before
    def text(make):
        try:
            make()
        except Exception as error:
            return [type(error).__name__, str(error).partition(".")[0]]
    x, c = torch.ones(2, device="cuda"), torch.ones(2)
    try:
        work(24)
    except bound_before as error:
        caught = [type(error).__name__, len(error.args)]
    result = [caught, text(lambda: work(24)), text(lambda: x + c), torch.cuda.memory_stats()["num_ooms"]]
    """
    mixed = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    found = on_mps(PROGRAM + _dedented(body), memory="64MiB")
    assert found == [["OutOfMemoryError", 1], ["OutOfMemoryError", "CUDA out of memory"], ["RuntimeError", mixed], 2]


@told_of_errors
def test_undone_from_312(on_mps: Callable) -> None:
    body = """
    import sys, torchdevice_cuda
    tools = lambda: [sys.monitoring.get_tool(tool) for tool in range(6)]
    during = "torchdevice_cuda" in tools()
    torchdevice_cuda.deactivate()
    result = [during, "torchdevice_cuda" in tools()]
    """
    assert on_mps(body, order="after") == [True, False]


@before
def test_undone(on_mps: Callable) -> None:
    body = """
    import torchdevice_cuda
    kept = "OutOfMemoryError" in vars(torch)
    torchdevice_cuda.deactivate()
    result = [kept, "OutOfMemoryError" in vars(torch), torch.OutOfMemoryError is torch._C.OutOfMemoryError,
              torch.cuda.OutOfMemoryError is torch._C.OutOfMemoryError]
    """
    assert on_mps(body, order="after") == [False, True, True, True]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "Expected a 'mps' device type for generator but found 'cpu'",
            "Expected a 'cuda' device type for generator but found 'cpu'",
        ),
        (
            "Expected all tensors to be on the same device, but got mat2 is on cpu, different from other tensors on mps:0 "
            "(when checking argument in method wrapper_MPS_mm)",
            "Expected all tensors to be on the same device, but got mat2 is on cpu, different from other tensors on cuda:0 "
            "(when checking argument in method wrapper_CUDA_mm)",
        ),
        (
            "Input type (torch.FloatTensor) and weight type (MPSFloatType) should be the same",
            "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same",
        ),
        (
            "Placeholder storage has not been allocated on MPS device!",
            "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
        ),
    ],
)
def test_words(said: str, shown: str) -> None:
    assert in_cudas_words(said) == shown


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


def test_native_identity_keeps_the_words(on_mps: Callable) -> None:
    body = """
    try:
        torch.rand(3, generator=torch.Generator("cuda"))
    except RuntimeError as error:
        result = str(error)
    """
    assert on_mps(body).endswith("'cuda'") and on_mps(body, identity="native").endswith("'mps'")


def _dedented(body: str) -> str:
    import textwrap

    return textwrap.dedent(body)
