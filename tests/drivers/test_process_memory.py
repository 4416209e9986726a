"""Memory figures of the ``cpu`` driver: those of the process, with CUDA's peaks, limits and errors."""

from __future__ import annotations

import mmap

import pytest
import torch
from harness import CPU, child, in_child

MIB = 1 << 20


def hold_and_let_go(size: int) -> None:
    """Memory that nobody asks about while it is held; the system's own: allocators may keep what is let go."""
    with mmap.mmap(-1, size) as held:
        for page in range(0, size, mmap.PAGESIZE):
            held[page] = 1


@child(CPU, alone=True)
def test_the_peak_is_what_was_held_between_two_questions() -> None:
    torch.cuda.init()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.max_memory_allocated()
    hold_and_let_go(512 * MIB)
    peak = torch.cuda.max_memory_allocated()
    assert torch.cuda.memory_allocated() < before + 256 * MIB, "it has been let go"
    assert peak > before + 500 * MIB


@child(CPU, alone=True)
def test_the_peak_starts_again_from_the_present() -> None:
    torch.cuda.init()
    hold_and_let_go(512 * MIB)
    assert torch.cuda.max_memory_allocated() > 256 * MIB
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() < 256 * MIB


def peak_of_half_a_gibibyte() -> int:
    torch.cuda.init()
    hold_and_let_go(512 * MIB)
    return torch.cuda.max_memory_allocated()


def test_the_peak_is_not_that_of_the_process_that_started_this_one() -> None:
    held = bytes([1]) * (1200 * MIB)
    assert 500 * MIB < in_child(peak_of_half_a_gibibyte, CPU) < len(held)


@child(CPU.with_settings(memory="256MiB"), alone=True)
def test_a_block_that_is_larger_than_the_fraction_is_refused() -> None:
    torch.cuda.set_per_process_memory_fraction(0.1)
    assert torch.cuda.get_per_process_memory_fraction() == 0.1
    with pytest.raises(torch.cuda.OutOfMemoryError, match="Tried to allocate"):
        torch.cuda.caching_allocator_alloc(64 * MIB)
    assert torch.cuda.memory_stats()["num_ooms"] == 1


@child(CPU.with_settings(memory="256MiB"), alone=True)
def test_a_block_within_the_fraction_is_given() -> None:
    torch.cuda.set_per_process_memory_fraction(0.5)
    address = torch.cuda.caching_allocator_alloc(64 * MIB)
    assert address
    torch.cuda.caching_allocator_delete(address)
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.caching_allocator_delete(torch.cuda.caching_allocator_alloc(160 * MIB))


@child(CPU.with_settings(memory="256MiB", devices=2), alone=True)
def test_a_fraction_is_of_one_device() -> None:
    torch.cuda.set_per_process_memory_fraction(0.1, 0)
    assert torch.cuda.get_per_process_memory_fraction(1) == 1.0
    with torch.cuda.device(1):
        torch.cuda.caching_allocator_delete(torch.cuda.caching_allocator_alloc(64 * MIB))
