"""``torch.cuda.set_sync_debug_mode`` on the Apple GPU: what CUDA waits for, warns or fails."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from harness import MPS_FAITHFUL, VIRTUAL, child

import torchdevice_cuda

WORDS = "called a synchronizing CUDA operation"


def _x() -> torch.Tensor:
    return torch.ones(3, device="cuda")


#: What a program does, and whether CUDA waits for it, as an H200 answered (tests/data/oracle-h200.json) or PyTorch's
#: sources say.
CALLS: dict[str, tuple[Callable[[torch.Tensor], Any], bool]] = {
    "item": (lambda x: x.sum().item(), True),
    "bool": (lambda x: bool(x.all()), True),
    "tolist": (lambda x: x.tolist(), True),
    "cpu": (lambda x: x.cpu(), True),
    "to the host, without waiting": (lambda x: x.to("cpu", non_blocking=True), False),
    "from the host": (lambda x: torch.ones(2).to("cuda"), True),
    "from a number": (lambda x: torch.tensor(3.0, device="cuda"), True),
    "nonzero": (lambda x: x.nonzero(), True),
    "a mask": (lambda x: x[x > 0], True),
    "unique": (lambda x: x.unique(), True),
    "equal": (lambda x: torch.equal(x, x + 1), True),
    "equal to itself": (lambda x: torch.equal(x, x), False),
    "add": (lambda x: x + 1, False),
    "a copy on the device": (lambda x: x.clone(), False),
    "a fallback": (lambda x: torch.frac(x).igamma(x), False),
    "synchronize": (lambda x: torch.cuda.synchronize(), False),
}


@contextmanager
def _mode(mode: int | str) -> Iterator[None]:
    torch.cuda.set_sync_debug_mode(mode)
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(0)


@child(MPS_FAITHFUL, VIRTUAL)
@pytest.mark.parametrize("call", CALLS)
def test_modes(call: str) -> None:
    function, waits = CALLS[call]
    x = _x()
    function(x)  # the first call initializes
    with _mode("warn"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(x)
    said = [str(warning.message) for warning in caught]
    assert [words.startswith(WORDS) for words in said] == [True] * waits
    with _mode("error"):
        if waits:
            with pytest.raises(RuntimeError, match=WORDS):
                function(x)
        else:
            function(x)
    function(x)


@child(MPS_FAITHFUL)
def test_the_programs_line_is_named() -> None:
    x = _x()
    with _mode("warn"), pytest.warns(UserWarning, match=WORDS) as caught:
        x.cpu()
    assert caught[0].filename == __file__


@child(MPS_FAITHFUL.with_settings(policy="accelerate"))
def test_what_reports_the_cpu_does_not_wait() -> None:
    x, y = _x(), torch.ones(3)
    with _mode("error"):
        y.nonzero()
        with pytest.raises(RuntimeError, match=WORDS):
            x.nonzero()


@child(MPS_FAITHFUL.when("after"))
def test_deactivation_ends_it() -> None:
    x = _x()
    torch.cuda.set_sync_debug_mode("error")
    torchdevice_cuda.deactivate()
    assert x.nonzero().numel() == 3
