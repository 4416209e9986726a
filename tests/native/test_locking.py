"""No thread waits for the interpreter under a lock of the device: any two calls get on, whatever a history keeps.

A thread allocates all the time, and with a history every allocation keeps a Python stack and lets an old one go.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness import VIRTUAL, child

#: Seconds that a pair of calls has, over and over.
TURN = 0.004


def calls(native: Any) -> dict[str, Callable[[], object]]:
    """Every call of the compiled module that reaches memory, streams or generators."""
    event, stream = native.Event(), native.stream_new(0, 0)
    event.record(0, stream)
    block = native.raw_alloc(4096, 0, 0)
    return {
        "memory_stats": lambda: native.memory_stats(0),
        "memory_allocated": lambda: native.memory_allocated(0),
        "mem_info": lambda: native.mem_info(0),
        "reset_peak_stats": lambda: native.reset_peak_stats(0),
        "reset_accumulated_stats": lambda: native.reset_accumulated_stats(0),
        "set_fraction": lambda: native.set_fraction(1.0, 0),
        "get_fraction": lambda: native.get_fraction(0),
        "empty_cache": lambda: native.empty_cache(),
        "raw_alloc": lambda: native.raw_delete(native.raw_alloc(512, 0, 0)),
        "device_of_address": lambda: native.device_of_address(block),
        "segment_of_address": lambda: native.segment_of_address(block),
        "snapshot": lambda: native.snapshot(),
        "pool": lambda: (native.pool_begin(0, 7, 7, True), native.pool_end(0, 7, 7), native.pool_release(0, 7, 7)),
        "host_stats": lambda: native.host_stats(),
        "host_reset_peak_stats": lambda: native.host_reset_peak_stats(),
        "host_empty_cache": lambda: native.host_empty_cache(),
        "is_pinned_address": lambda: native.is_pinned_address(block),
        "streams": lambda: (native.stream_query(0, stream), native.stream_handle(0, stream), native.synchronize(0)),
        "external stream": lambda: native.stream_query(0, 0x7000),
        "event": lambda: (event.record(0, stream), event.block(0, stream), event.query()),
        "next_seed": lambda: native.next_seed(0),
        "tensor": lambda: torch.ones(8, device="cuda") + 1,
    }


def repeat(function: Callable[[], object], until: float) -> None:
    while time.monotonic() < until:
        function()


def allocate(stop: threading.Event) -> None:
    while not stop.is_set():
        x = torch.randn(100, device="cuda")
        x = x + 1


@child(VIRTUAL, alone=True, seconds=240)
@pytest.mark.parametrize("history", [False, True])
def test_any_two_calls_get_on(history: bool) -> None:
    import torchdevice_cuda

    torch.ones(1, device="cuda")
    native: Any = torchdevice_cuda.driver().native
    if history:
        torch.cuda.memory._record_memory_history(stacks="python", max_entries=50)
    stop = threading.Event()
    allocating = [threading.Thread(target=allocate, args=(stop,), daemon=True) for _ in range(2)]
    for thread in allocating:
        thread.start()
    for one, other in itertools.combinations_with_replacement(calls(native).values(), 2):
        until = time.monotonic() + TURN
        beside = threading.Thread(target=repeat, args=(other, until), daemon=True)
        beside.start()
        repeat(one, until)
        beside.join(60)
        assert not beside.is_alive()
    stop.set()
    for thread in allocating:
        thread.join(60)
        assert not thread.is_alive()


@child(VIRTUAL, alone=True, seconds=120)
def test_statistics_beside_threads_that_allocate_under_a_history() -> None:
    """Dropping an entry's stack once took the lock that statistics waited for, and hung within seconds."""
    torch.cuda.memory._record_memory_history(stacks="python", max_entries=1000)
    stop = threading.Event()
    threads = [threading.Thread(target=allocate, args=(stop,), daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    repeat(torch.cuda.memory_stats, time.monotonic() + 5)
    stop.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


@child(VIRTUAL, alone=True)
def test_stacks_that_gave_way_are_dropped() -> None:
    """They are laid aside under the lock; the next to take one drops them."""
    import gc

    torch.cuda.memory._record_memory_history(stacks="python", max_entries=10)
    for _ in range(100):
        torch.ones(1, device="cuda")
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(2000):
        torch.ones(1, device="cuda")
    gc.collect()
    assert len(gc.get_objects()) - before < 500
    torch.cuda.memory._record_memory_history(enabled=None)
