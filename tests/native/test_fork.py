"""A child forked after the device was used is told so, in CUDA's words, and can still do everything else."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable

import pytest
import torch
from harness import child
from torch.utils.data import DataLoader, TensorDataset

from .bare import bare, native

ONE = bare()
WORDS = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' "
    "start method"
)


def _forked(function: Callable[[], None]) -> int:
    """Call the function in a forked child and return its exit status."""
    process = os.fork()
    if process == 0:
        try:
            function()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitpid(process, 0)[1]


def _use() -> None:
    assert not native().in_bad_fork()
    assert (torch.ones(2, device="cuda") + 1).sum() == 4


@child(ONE, alone=True)
def test_fork_before_use() -> None:
    assert _forked(_use) == 0


#: What a child may not do with a tensor of its parent.
REFUSED: dict[str, Callable[[torch.Tensor], object]] = {
    "make": lambda x: torch.zeros(1, device="cuda"),
    "compute": lambda x: x + 1,
    "read": lambda x: x.cpu(),
    "wait": lambda x: native().synchronize(0),
    "move": lambda x: torch.ones(1).cuda(),
    "stream": lambda x: native().stream_new(0, 0),
}


@child(ONE)
@pytest.mark.parametrize("refused", REFUSED)
def test_fork_after_use_is_refused_the_device(refused: str) -> None:
    x = torch.ones(2, device="cuda")

    def ask() -> None:
        with pytest.raises(RuntimeError) as caught:
            REFUSED[refused](x)
        assert str(caught.value) == WORDS

    assert _forked(ask) == 0


@child(ONE)
def test_fork_after_use_can_do_the_rest() -> None:
    held = [torch.ones(2, device="cuda")]

    def go_on() -> None:
        assert native().in_bad_fork()
        assert torch.ones(2).sum() == 2
        held.clear()

    assert _forked(go_on) == 0


@child(ONE)
def test_the_parent_goes_on() -> None:
    x = torch.ones(2, device="cuda")
    assert _forked(lambda: None) == 0
    assert not native().in_bad_fork()
    assert (x + 1).sum() == 4


@child(ONE)
def test_workers_of_a_data_loader_never_touch_the_device() -> None:
    torch.ones(2, device="cuda")
    loader = DataLoader(TensorDataset(torch.arange(8.0)), batch_size=4, num_workers=2, pin_memory=False)
    assert sum(batch[0].cuda().sum().item() for batch in loader) == 28


@child(ONE)
def test_fork_while_other_threads_allocate() -> None:
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            torch.empty(1000, device="cuda")

    threads = [threading.Thread(target=churn) for _ in range(3)]
    for thread in threads:
        thread.start()
    kept = [torch.ones(10, device="cuda")]
    try:
        assert [_forked(kept.clear) for _ in range(30)] == [0] * 30
    finally:
        stop.set()
        for thread in threads:
            thread.join()
