"""Pinned memory and copies that cross between host and device: who waits, and whose memory it is meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch
from harness import VIRTUAL, child

from torchdevice_cuda._compat import raw_sizes_are_signed

pytestmark = child(VIRTUAL)
#: Cycles in which a stream is busy for a tenth of a second.
BUSY = 150_000_000


def _waited(copy: Callable[[], object]) -> bool:
    torch.cuda.synchronize()
    torch.cuda._sleep(BUSY)
    started = time.perf_counter()
    copy()
    waited = time.perf_counter() - started > 0.05
    torch.cuda.synchronize()
    return waited


COPIES: dict[str, tuple[Callable[[], object], bool]] = {
    "to the device": (lambda: torch.ones(4).to("cuda"), True),
    "to the device, pinned": (lambda: torch.ones(4).pin_memory().to("cuda"), True),
    "to the device, not blocking": (lambda: torch.ones(4).to("cuda", non_blocking=True), False),
    "much to the device, not blocking": (lambda: torch.ones(1 << 20).to("cuda", non_blocking=True), True),
    "nothing to the device": (lambda: torch.ones(0).to("cuda"), False),
    "to the device, pinned, not blocking": (lambda: torch.ones(4).pin_memory().to("cuda", non_blocking=True), False),
    "to the host": (lambda: torch.ones(4, device="cuda").cpu(), True),
    "to the host, not blocking": (lambda: torch.ones(4, device="cuda").to("cpu", non_blocking=True), False),
    "on the device": (lambda: torch.ones(4, device="cuda").clone(), False),
}


@pytest.mark.parametrize("copy", COPIES)
def test_copies_to_pinned_memory_do_not_wait_for_the_stream(copy: str) -> None:
    function, waits = COPIES[copy]
    assert _waited(function) is waits


def _copied_in_flight() -> tuple[torch.Tensor, int]:
    """Return a tensor that is being copied to from pinned memory, which nobody holds any more, and where that was."""
    torch.cuda.synchronize()
    source, made = torch.ones(1).pin_memory(), torch.zeros(1, device="cuda")
    torch.cuda.current_stream().synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(BUSY)
        made.copy_(source, non_blocking=True)
    return made, source.data_ptr()


def test_a_block_is_not_used_again_while_a_copy_from_it_is_in_flight() -> None:
    _, address = _copied_in_flight()
    assert torch.ones(1).pin_memory().data_ptr() != address


def test_it_is_used_again_when_the_copy_is_done() -> None:
    _, address = _copied_in_flight()
    torch.cuda.synchronize()
    held = [torch.ones(1).pin_memory() for _ in range(8)]
    assert address in {tensor.data_ptr() for tensor in held}


def test_the_block_that_became_free_last_is_used_first() -> None:
    _, address = _copied_in_flight()
    del _
    other = torch.ones(1).pin_memory()
    torch.cuda.synchronize()
    del other
    assert torch.ones(1).pin_memory().data_ptr() == address


def test_memory_that_a_program_registers_is_pinned() -> None:
    runtime, mine = torch.cuda.cudart(), torch.ones(20)
    assert not mine.is_pinned()
    assert int(runtime.cudaHostRegister(mine.data_ptr(), mine.nbytes, 0)) == 0
    assert mine.is_pinned()
    assert mine[3:].is_pinned()
    assert not torch.ones(20).is_pinned()
    assert int(runtime.cudaHostUnregister(mine.data_ptr())) == 0
    assert not mine.is_pinned()


def test_sizes_of_raw_memory_that_are_negative() -> None:
    """As an H200 does until 2.13: -1 becomes nothing when it is rounded up, and gets the smallest block."""
    if raw_sizes_are_signed(torch.__version__):
        with pytest.raises(ValueError, match="^Invalid memory size: -1024. caching_allocator_alloc requires a non-neg"):
            torch.cuda.caching_allocator_alloc(-1024)
        return
    address = torch.cuda.caching_allocator_alloc(-1)
    assert address
    torch.cuda.caching_allocator_delete(address)
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate 17179868160.00 GiB"):
        torch.cuda.caching_allocator_alloc(-(2**40))


@child(VIRTUAL, alone=True)
def test_registered_memory_is_pinned_before_anything_else_is_done() -> None:
    x, cudart = torch.ones(20), torch.cuda.cudart()
    assert not x.is_pinned()
    assert cudart.cudaHostRegister(x.data_ptr(), 80, 0) == 0
    assert x.is_pinned()
    assert cudart.cudaHostUnregister(x.data_ptr()) == 0
    assert not x.is_pinned()


@child(VIRTUAL, alone=True)
def test_allocation_from_the_host_is_timed() -> None:
    torch.cuda.init()
    x = torch.ones(1 << 20, pin_memory=True)
    y = torch.ones(3, pin_memory=True)
    del x
    z = torch.ones(1 << 20, pin_memory=True)  # which was kept
    del y, z
    torch._C._host_emptyCache()
    stats = torch.cuda.host_memory_stats()
    for taken in ("host_alloc_time", "host_free_time"):
        assert stats[f"{taken}.count"] == 2
        assert 0 <= stats[f"{taken}.min"] <= stats[f"{taken}.avg"] <= stats[f"{taken}.max"] <= stats[f"{taken}.total"]
    torch.cuda.reset_accumulated_host_memory_stats()
    assert torch.cuda.host_memory_stats()["host_alloc_time.count"] == 0
