"""Several virtual GPUs: each has its own memory, current device is per thread, copies between them are real."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from harness import child
from torch import nn

from .bare import GIB, bare, emptied, native

FOUR = bare(4)
#: Memory of a size that threads can use up.
SMALLER = bare(4, 2 * GIB)


@contextmanager
def _current(index: int) -> Iterator[None]:
    before = native().exchange_device(index)
    try:
        yield
    finally:
        native().set_device(before)


@child(FOUR)
def test_each_has_its_own_memory() -> None:
    module = emptied()
    x = torch.ones(1000, device="cuda:2")
    assert [module.memory_allocated(index) for index in range(4)] == [0, 0, 4096, 0]
    del x


@child(FOUR)
def test_the_current_device() -> None:
    with _current(3):
        assert torch.ones(1, device="cuda").get_device() == 3
        assert native().exchange_device(1) == 3
        assert native().get_device() == 1
    assert native().get_device() == 0


@child(FOUR)
def test_the_current_device_is_per_thread() -> None:
    seen: list[int] = []
    with _current(1):
        thread = threading.Thread(target=lambda: seen.append(native().get_device()))
        thread.start()
        thread.join()
        assert native().get_device() == 1
    assert seen == [0]


@child(FOUR)
def test_a_device_as_context() -> None:
    with torch.device("cuda:2"):
        assert torch.zeros(1).get_device() == 2


@child(FOUR)
def test_copies_between_them() -> None:
    x = torch.ones(1000, device="cuda:2")
    y = x.to("cuda:1")
    assert y.data_ptr() != x.data_ptr()
    assert y.sum().item() == 1000


@child(FOUR)
def test_results_are_where_their_arguments_are() -> None:
    assert (torch.ones(1000, device="cuda:2") * 2).get_device() == 2


@child(FOUR)
def test_gradients_cross_devices() -> None:
    first, second = nn.Linear(4, 4).to("cuda:0"), nn.Linear(4, 2).to("cuda:1")
    second(first(torch.ones(3, 4, device="cuda:0")).to("cuda:1")).sum().backward()
    assert first.weight.grad.get_device() == 0
    assert second.weight.grad.get_device() == 1


def _work(seed: int, seconds: float) -> None:
    """Make, copy, keep and check tensors on any of the devices."""
    rng, kept, module = random.Random(seed), [], native()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        module.set_device(rng.randrange(4))
        x = torch.full((rng.choice([1, 100, 5000, 300_000, 600_000]),), float(seed), device="cuda")
        assert x.get_device() == module.get_device()
        y = x.to(f"cuda:{rng.randrange(4)}")
        y += 1
        if rng.random() < 0.3:
            kept.append((y, seed + 1))
        if len(kept) > 20:
            z, expected = kept.pop(rng.randrange(len(kept)))
            assert z[0].item() == expected
            assert z[-1].item() == expected
    for z, expected in kept:
        assert (z == expected).all()


def _churn(seconds: float) -> int:
    """Eight threads at once; the resident memory of the process after them."""
    failures: list[BaseException] = []

    def guarded(seed: int) -> None:
        try:
            _work(seed, seconds)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


#: Figures of what is held at the moment.
HELD = (
    "allocation", "allocated_bytes", "active", "active_bytes", "requested_bytes", "inactive_split",
    "inactive_split_bytes",
)  # fmt: skip


@child(SMALLER)
def test_threads() -> None:
    _churn(4)
    for index in range(4):
        stats = native().memory_stats(index)
        held = {(name, pool): stats[name][pool]["current"] for name in HELD for pool in stats[name]}
        assert {figure: value for figure, value in held.items() if value} == {}, index
    native().empty_cache()
    assert [native().memory_stats(index)["reserved_bytes"]["all"]["current"] for index in range(4)] == [0] * 4


@pytest.mark.slow
@child(SMALLER, seconds=180)
def test_threads_for_half_a_minute_do_not_leak() -> None:
    first = _churn(8)
    last = _churn(30)
    assert last - first < 64 << 20
