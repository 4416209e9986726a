"""Observers of memory that runs out: called every time, with the interpreter and no lock."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from harness import CPU, MPS, VIRTUAL, child

MIB, GIB = 1 << 20, 1 << 30
SMALL = VIRTUAL.with_settings(memory=64 * MIB, devices=2)
MUCH = 1 << 59


def _run_out(device: str = "cuda", size: int = GIB) -> None:
    with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
        torch.empty(size, dtype=torch.uint8, device=device)


def _seen() -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *what: found.append(what))
    return found


@child(SMALL, alone=True)
def test_events_of_observers() -> None:
    seen, also = _seen(), _seen()
    x = torch.empty(2 * MIB, dtype=torch.uint8, device="cuda:1")
    for device in ("cuda:0", "cuda:1"):
        _run_out(device)
    assert seen == also == [(0, GIB, 64 * MIB, 64 * MIB), (1, GIB, 64 * MIB, 44 * MIB)]
    torch.cuda.set_per_process_memory_fraction(0.5, 0)
    _run_out("cuda:0")
    assert seen[2:] == [(0, GIB, 32 * MIB, 64 * MIB)]
    assert x.numel() == 2 * MIB


@child(CPU, MPS)
def test_they_are_told_on_every_driver() -> None:
    seen = _seen()
    _run_out(size=MUCH)
    with pytest.raises(torch.OutOfMemoryError):
        torch.cuda.caching_allocator_alloc(MUCH)
    assert [entry[1] for entry in seen] == [MUCH, MUCH]


@child(SMALL, alone=True)
@pytest.mark.parametrize("history", [False, True])
def test_they_may_do_anything(history: bool) -> None:
    """Ask, allocate on the device and on the host, draw random numbers, run out of memory themselves."""
    if history:
        torch.cuda.memory._record_memory_history(max_entries=100)
    depth, seen = 0, []

    def observe(*what: int) -> None:
        nonlocal depth
        depth += 1
        if depth == 1:
            torch.cuda.memory_stats()
            torch.cuda.memory._snapshot()
            torch.cuda.empty_cache()
            assert torch.ones(4, device="cuda").sum() == 4
            before = torch.cuda.memory_allocated()
            host = torch.ones(1000)
            assert torch.cuda.memory_allocated() == before
            assert host.sum() == 1000
            torch.native_dropout(torch.ones(4, device="cuda"), 0.5, True)
            _run_out()
        seen.append(what)
        depth -= 1

    torch._C._cuda_attach_out_of_memory_observer(observe)
    x = torch.ones(5 * MIB, device="cuda")
    with pytest.raises(torch.OutOfMemoryError):
        torch.native_dropout(x.expand(4, -1), 0.5, True)  # which lends the host's generator its seed meanwhile
    assert len(seen) == 2


@child(SMALL, alone=True)
def test_their_error_is_what_the_program_sees() -> None:
    def observe(*what: int) -> None:
        raise KeyError("mine")

    torch._C._cuda_attach_out_of_memory_observer(observe)
    with pytest.raises(KeyError, match="mine"):
        torch.empty(GIB, dtype=torch.uint8, device="cuda")
    x = torch.ones(4, device="cuda", requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad is not None


@child(SMALL, alone=True, seconds=90)
def test_from_many_threads() -> None:
    seen = _seen()
    failures: list[Any] = []

    def work() -> None:
        try:
            for _ in range(50):
                _run_out()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not failures
    assert len(seen) == 200 == torch.cuda.memory_stats()["num_ooms"]
