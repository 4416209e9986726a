"""Tensors of different devices: what may meet, and CUDA's words for what may not."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch
from harness import child
from torch.nn import functional

from .bare import bare

pytestmark = child(bare(2))
TWO = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and "
BUT = "Expected all tensors to be on the same device, but got "
AT = " (when checking argument in method wrapper_CUDA_"


def _g() -> torch.Tensor:
    return torch.ones(2, 2, device="cuda")


def _c() -> torch.Tensor:
    return torch.ones(2, 2)


def _indices() -> torch.Tensor:
    return torch.tensor([1, 2], device="cuda")


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "g + c": (lambda: _g() + _c(), TWO + "cpu!"),
    "c + g": (lambda: _c() + _g(), TWO + "cpu!"),
    "in place": (lambda: _c().add_(_g()), TWO + "cpu!"),
    "one element is no number": (lambda: _g() + torch.ones(1), TWO + "cpu!"),
    "two GPUs": (lambda: _g() + _g().to("cuda:1"), TWO + "cuda:1!"),
    "a number of the GPU": (lambda: torch.zeros(2) + torch.tensor(1.0, device="cuda"), TWO + "cpu!"),
    "two numbers": (lambda: torch.zeros(()).add_(torch.tensor(1.0, device="cuda")), TWO + "cpu!"),
    "written by indices": (
        lambda: torch.arange(4.0, device="cuda").__setitem__(_indices(), torch.ones(2)),
        TWO + "cpu!",
    ),
    "mm": (lambda: _g() @ _c(), BUT + "mat2 is on cpu, different from other tensors on cuda:0" + AT + "mm)"),
    "cat": (
        lambda: torch.cat([_g(), _c()]),
        BUT + "tensors is on cpu, different from other tensors on cuda:0" + AT + "cat)",
    ),
    "linear": (
        lambda: functional.linear(_c(), _g()),
        BUT + "mat2 is on cuda:0, different from other tensors on cpu" + AT + "mm)",
    ),
    "embedding": (
        lambda: functional.embedding(torch.tensor([0]), _g()),
        BUT + "index is on cpu, different from other tensors on cuda:0" + AT + "_index_select)",
    ),
    "equal": (
        lambda: torch.equal(_g(), _c()),
        BUT + "other is on cpu, different from other tensors on cuda:0" + AT + "_equal)",
    ),
    "equal, the other way": (
        lambda: torch.equal(_c(), _g()),
        BUT + "other is on cuda:0, different from other tensors on cpu" + AT + "_equal)",
    ),
    "addcmul to a number": (
        lambda: torch.addcmul(torch.tensor(2.0), _g(), _g()),
        "CPU Scalar support for self argument is not supported when calling addcmul on CUDA tensors.",
    ),
    "addcmul of a number": (
        lambda: torch.addcmul(_g(), torch.tensor(2.0), _g()),
        "CPU Scalar support for tensor1 argument is not supported when calling addcmul on CUDA tensors. However, CPU "
        "Scalar support for tensor2 is supported, please swap your tensor1 and tensor2 terms.",
    ),
    "addcmul of two numbers": (
        lambda: torch.addcmul(_g(), torch.tensor(2.0), torch.tensor(2.0)),
        "Trying to pass too many CPU scalars to non-CPU kernel!",
    ),
    "addcdiv by a number": (lambda: torch.addcdiv(_g(), _g(), torch.tensor(2.0)), TWO + "cpu!"),
    "indices of the GPU": (
        lambda: torch.arange(4.0)[torch.tensor([1], device="cuda")],
        "indices should be either on cpu or on the same device as the indexed tensor (cpu)",
    ),
}


@pytest.mark.parametrize("refused", REFUSED)
def test_tensors_that_may_not_be_mixed(refused: str) -> None:
    function, words = REFUSED[refused]
    with pytest.raises(RuntimeError) as caught:
        function()
    assert str(caught.value).splitlines()[0] == words


#: Of two ones on the GPU and a three that is not.
NUMBERS: dict[str, tuple[Callable[[torch.Tensor, torch.Tensor], torch.Tensor], list[object]]] = {
    "v + s": (lambda v, s: v + s, [4, 4]),
    "s + v": (lambda v, s: s + v, [4, 4]),
    "where": (lambda v, s: torch.where(v > 0, s, v), [3, 3]),
    "masked_fill": (lambda v, s: v.masked_fill(v > 0, s), [3, 3]),
    "compared": (lambda v, s: v > s, [False, False]),
    "in place": (lambda v, s: v.add_(s), [4, 4]),
    "addcmul": (lambda v, s: torch.addcmul(v, v, s), [4, 4]),
}


@pytest.mark.parametrize("mixed", NUMBERS)
def test_numbers_mix(mixed: str) -> None:
    function, expected = NUMBERS[mixed]
    made = function(torch.ones(2, device="cuda"), torch.tensor(3.0))
    assert made.is_cuda
    assert made.tolist() == expected


def test_indices_mix() -> None:
    x = torch.arange(4.0, device="cuda")
    assert x[torch.tensor([1, 2])].tolist() == [1, 2]
    assert x[torch.tensor([True, False, True, False])].tolist() == [0, 2]


def test_indices_mix_where_they_write() -> None:
    x = torch.arange(4.0, device="cuda")
    x[torch.tensor([1, 2])] = 9.0
    assert x.tolist() == [0, 9, 9, 3]


def test_numbers_are_written_by_indices() -> None:
    x = torch.arange(4.0, device="cuda")
    x[_indices()] = torch.tensor(5.0)
    assert x.tolist() == [0, 5, 5, 3]


def test_copies_go_home() -> None:
    assert torch.zeros(3).copy_(torch.arange(3.0, device="cuda")).tolist() == [0, 1, 2]


def test_copies_go_to_another_gpu_and_dtype() -> None:
    assert torch.zeros(3, device="cuda:1").copy_(torch.arange(3, device="cuda")).tolist() == [0, 1, 2]


def test_copies_are_broadcast() -> None:
    assert torch.zeros(2, 3, device="cuda").t().copy_(torch.ones(2)).sum() == 6


OVERLAPPING: dict[str, Callable[[], object]] = {
    "one dimension": lambda: _row()[1:].copy_(_row()[:-1]),
    "rows": lambda: _square()[1:].copy_(_square()[:-1]),
    "another type": lambda: _row()[1:].copy_(_row().view(torch.int32)[:-1]),
    "an output": lambda: torch.add(_row()[:-1], 1, out=_row()[1:]),
}
ROW = functools.cache(lambda: torch.arange(16.0, device="cuda"))


def _row() -> torch.Tensor:
    return ROW()


def _square() -> torch.Tensor:
    return ROW().view(4, 4)


@pytest.mark.parametrize("overlapping", OVERLAPPING)
def test_copies_that_overlap_are_refused(overlapping: str) -> None:
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to a"):
        OVERLAPPING[overlapping]()
    assert _row().tolist() == list(range(16))


def test_a_copy_onto_itself_is_not() -> None:
    assert _row().copy_(_row()).tolist() == list(range(16))
    assert _row().copy_(_row()[:]).tolist() == list(range(16))


def test_no_numpy() -> None:
    words = (
        "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
    )
    with pytest.raises(TypeError) as caught:
        _g().numpy()
    assert str(caught.value) == words
