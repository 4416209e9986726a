"""Memory pools: who holds them, and when their memory goes back; as CUDA's caching allocator has it."""

from __future__ import annotations

import gc

import pytest
import torch
from harness import CPU, MPS, VIRTUAL, child

MIB = 1 << 20
SMALL = VIRTUAL.with_settings(memory=256 * MIB)


def _reserved() -> int:
    return torch.cuda.memory_reserved()


@child(SMALL, alone=True)
def test_memory_of_dropped_pools_goes_back() -> None:
    """Free the memory of dropped pools: the device once ran out of memory with nothing allocated."""
    for _ in range(20):
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            x = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
        del x, pool
    assert torch.cuda.memory_allocated() == 0


@child(SMALL, alone=True)
def test_a_pool_dropped_before_its_tensors() -> None:
    kept = []
    for _ in range(20):
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            kept.append(torch.ones(25 * MIB, device="cuda"))
        del pool
        assert kept[-1].sum() == 25 * MIB
        if len(kept) == 2:
            kept.clear()  # what nobody holds any more goes back when memory is short


@child(SMALL, alone=True)
def test_a_pool_that_is_held_keeps_its_memory() -> None:
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        x = torch.ones(4, device="cuda")
    del x
    held = _reserved()
    assert held > 0
    torch.cuda.empty_cache()
    assert _reserved() == held
    assert [segment["segment_pool_id"] for segment in pool.snapshot()] == [pool.id]
    del pool
    gc.collect()
    assert _reserved() == 0


@child(CPU, VIRTUAL, MPS)
def test_owners_of_a_pool() -> None:
    pool = torch.cuda.MemPool()
    assert pool.use_count() == 1
    with torch.cuda.use_mem_pool(pool):
        assert pool.use_count() == 2
        with torch.cuda.use_mem_pool(pool):
            assert pool.use_count() == 3
    assert pool.use_count() == 1


@child(VIRTUAL)
def test_a_pool_released_while_it_is_in_use() -> None:
    torch._C._cuda_beginAllocateCurrentThreadToPool(0, (5, 5))
    torch._C._cuda_releasePool(0, (5, 5))
    torch._C._cuda_releasePool(0, (5, 5))
    torch.cuda.empty_cache()
    x = torch.ones(4, device="cuda")
    torch._C._cuda_endAllocateToPool(0, (5, 5))
    assert x.sum() == 4
    with pytest.raises(RuntimeError, match="endAllocatePool: not currently recording to mempool_id"):
        torch._C._cuda_endAllocateToPool(0, (5, 5))


@child(CPU, VIRTUAL)
def test_a_pool_of_the_programs_own_functions_is_refused() -> None:
    """Memory from elsewhere than it asked for would be silently wrong."""
    plugged = torch._C._cuda_customAllocator(1, 2)
    with pytest.raises(RuntimeError, match="which a pluggable CUDA allocator cannot replace"):
        torch.cuda.MemPool(plugged)
    assert torch.cuda.MemPool(torch._C._cuda_getAllocator()).allocator is torch._C._cuda_getAllocator()
