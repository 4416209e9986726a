"""The ledger: sizes, pools, peaks, snapshots, limits; what a program can see of CUDA's allocator."""

from __future__ import annotations

import pickle
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from harness import child

from .bare import MIB, bare, emptied, native

on_one = child(bare())
on_little = child(bare(memory=256 * MIB))


def _stat(name: str) -> Any:
    """Return a figure of the first device, by the path to it."""
    value = native().memory_stats(0)
    for part in name.split("."):
        value = value[part]
    return value


def _bytes(count: int) -> torch.Tensor:
    return torch.empty(count, dtype=torch.uint8, device="cuda")


@on_one
def test_sizes_are_rounded() -> None:
    emptied()
    a = _bytes(1)
    assert _stat("allocated_bytes.all.current") == 512
    assert _stat("requested_bytes.all.current") == 1
    b = _bytes(513)
    assert _stat("allocated_bytes.all.current") == 1536
    assert b.data_ptr() - a.data_ptr() == 512


@on_one
def test_small_ones_share_a_segment() -> None:
    emptied()
    assert _stat("reserved_bytes.all.current") == 0
    kept = [_bytes(1), _bytes(513)]
    assert _stat("allocation.small_pool.current") == len(kept)
    assert _stat("reserved_bytes.all.current") == 2 * MIB
    assert _stat("inactive_split_bytes.all.current") == 2 * MIB - 1536


@on_one
def test_large_ones_have_segments_of_their_own() -> None:
    emptied()
    kept = [_bytes(MIB + 1)]
    assert _stat("reserved_bytes.large_pool.current") == 20 * MIB
    assert _stat("allocation.large_pool.current") == len(kept)
    kept.append(_bytes(32 * MIB + 1))
    assert _stat("reserved_bytes.large_pool.current") == 54 * MIB
    assert _stat("segment.all.current") == 2


@on_one
def test_an_empty_allocation_has_no_address() -> None:
    assert _bytes(0).data_ptr() == 0


@on_one
def test_freed_memory_is_reused() -> None:
    emptied()
    d = _bytes(32 * MIB + 1)
    where, reserved = d.data_ptr(), _stat("reserved_bytes.large_pool.current")
    del d
    assert _stat("reserved_bytes.large_pool.current") == reserved
    d = _bytes(32 * MIB)
    assert d.data_ptr() == where


@on_one
def test_the_peak_stays() -> None:
    emptied()
    kept = [_bytes(1), _bytes(513), _bytes(MIB + 1), _bytes(32 * MIB + 1)]
    kept.clear()
    assert _stat("allocated_bytes.all.current") == 0
    assert _stat("inactive_split_bytes.all.current") == 0
    assert _stat("allocated_bytes.all.peak") == 1536 + MIB + 512 + 32 * MIB + 512


@on_one
def test_figures_are_reset() -> None:
    module = emptied()
    _bytes(1)
    module.empty_cache()
    module.reset_peak_stats(0)
    module.reset_accumulated_stats(0)
    assert _stat("allocated_bytes.all") == {"current": 0, "peak": 0, "allocated": 0, "freed": 0}


@on_one
def test_reserved_memory_is_not_free() -> None:
    module = emptied()
    _bytes(1)
    free, total = module.mem_info(0)
    assert total - free == _stat("reserved_bytes.all.current") == 2 * MIB
    module.empty_cache()
    assert _stat("reserved_bytes.all.current") == 0
    assert module.mem_info(0) == (total, total)


# ---------------------------------------------------------------------------- what operators take


def _allocated() -> int:
    return native().memory_allocated(0)


@on_one
def test_results_are_counted() -> None:
    x = torch.ones(MIB, device="cuda")
    before = _allocated()
    y = x * 2
    assert _allocated() - before == 4 * MIB
    s = x.sort()  # values, indices
    assert _allocated() - before == (4 + 4 + 8) * MIB
    del y, s
    assert _allocated() == before


@on_one
def test_in_place_operators_allocate_nothing() -> None:
    x = torch.ones(MIB, device="cuda")
    native().reset_peak_stats(0)
    x.add_(1).mul_(2)
    assert _stat("allocated_bytes.all.peak") == _allocated()


@on_one
def test_temporaries_are_given_back() -> None:
    x = torch.ones(MIB, device="cuda")
    before = _allocated()
    torch.softmax(x.view(1024, 1024).half(), -1)
    assert _allocated() == before


@on_one
def test_the_hosts_are_not_counted() -> None:
    before = _allocated()
    host = torch.ones(MIB) * 2
    assert _allocated() == before
    del host


@on_one
def test_a_tensor_that_is_gone_holds_nothing() -> None:
    emptied()
    x = torch.ones(MIB, device="cuda")
    known = weakref.ref(x)
    del x
    assert known() is None
    assert _allocated() == 0


# ---------------------------------------------------------------------------------- running out of it


@on_little
def test_out_of_memory_in_cudas_words() -> None:
    emptied()
    with pytest.raises(torch.cuda.OutOfMemoryError) as caught:
        _bytes(1 << 30)
    assert str(caught.value).startswith(
        "CUDA out of memory. Tried to allocate 1024.00 MiB. GPU 0 has a total capacity of 256.00 MiB of which "
        "256.00 MiB is free. "
    )
    assert "is reserved by PyTorch but unallocated" in str(caught.value)
    assert _stat("num_ooms") == 1


@on_little
def test_out_of_memory_for_a_result() -> None:
    emptied()
    kept = [_bytes(60 * MIB) for _ in range(4)]
    with pytest.raises(torch.OutOfMemoryError):
        kept[0] + 1


@on_little
def test_cached_blocks_give_way_before_the_program_is_told() -> None:
    emptied()
    kept = [_bytes(60 * MIB) for _ in range(4)]
    del kept[1:]
    kept.append(_bytes(150 * MIB))
    assert _stat("num_alloc_retries") == 1


@on_little
def test_the_program_goes_on_after_it() -> None:
    emptied()
    with pytest.raises(torch.OutOfMemoryError):
        _bytes(1 << 30)
    assert _allocated() == 0
    assert (torch.ones(3, device="cuda") + 1).sum() == 6


@on_little
def test_a_fraction_of_memory() -> None:
    module = emptied()
    module.set_fraction(0.5, 0)
    try:
        with pytest.raises(torch.OutOfMemoryError, match="128.00 MiB allowed; "):
            _bytes(200 * MIB)
    finally:
        module.set_fraction(1.0, 0)


@on_little
def test_more_than_anyone_has() -> None:
    words = "^CUDA out of memory. Tried to allocate more than 1EB memory."
    with pytest.raises(torch.OutOfMemoryError, match=words):
        _bytes((1 << 60) + 1024)


# ------------------------------------------------------------------------------ snapshots and history


@contextmanager
def _recorded() -> Iterator[Any]:
    """Return the native module, while the history of an empty device is recorded."""
    module = emptied()
    module.record_history(True, max_entries=1000)
    try:
        yield module
    finally:
        module.record_history(False)


@on_one
def test_the_segments_of_a_snapshot() -> None:
    with _recorded() as module:
        kept = [_bytes(2 * MIB), torch.empty(100, device="cuda"), _bytes(30 * MIB)]
        segments = module.snapshot()["segments"]
        assert sorted(s["segment_type"] for s in segments) == ["large", "large", "small"]
        assert sum(s["allocated_size"] for s in segments) == module.memory_allocated(0)
        for s in segments:
            assert sum(b["size"] for b in s["blocks"]) == s["total_size"]
            assert s["blocks"][0]["address"] == s["address"]
            # Of a segment whose first block was cut CUDA has forgotten where it was made.
            named = "test_the_segments_of_a_snapshot" in [frame["name"] for frame in s["frames"]]
            assert named is (len(s["blocks"]) == 1)
        kept.clear()


@on_one
def test_the_block_of_a_tensor() -> None:
    with _recorded() as module:
        x = _bytes(2 * MIB)
        blocks = [b for s in module.snapshot()["segments"] for b in s["blocks"]]
        (block,) = (b for b in blocks if b["address"] == x.data_ptr())
        assert block["state"] == "active_allocated"
        assert block["requested_size"] == 2 * MIB
        del x


@on_one
def test_the_history() -> None:
    with _recorded() as module:
        x, y = _bytes(2 * MIB), torch.empty(100, device="cuda")
        module.snapshot()
        del x
        module.empty_cache()
        with pytest.raises(torch.OutOfMemoryError):
            _bytes(1 << 50)
        actions = [trace["action"] for trace in module.snapshot()["device_traces"][0]]
        del y
    made, freed = ["segment_alloc", "alloc"], ["free_requested", "free_completed", "segment_free"]
    assert actions == [*made, *made, "snapshot", *freed, "oom"]


@on_one
def test_torchs_own_viewer_reads_snapshots() -> None:
    from torch.cuda import _memory_viz

    with _recorded() as module:
        x = _bytes(2 * MIB)
        assert _memory_viz.segsum(module.snapshot())
        assert _memory_viz.trace_plot(pickle.loads(pickle.dumps(module.snapshot())))
        del x


@on_one
def test_the_history_is_turned_off() -> None:
    with _recorded() as module:
        assert module.history_enabled()
        _bytes(1)
    assert not module.history_enabled()
    assert module.snapshot()["device_traces"] == [[]]


# ----------------------------------------------------------- raw memory, other streams, pools, the host


@on_one
def test_raw_memory() -> None:
    module = emptied()
    address = module.raw_alloc(4096, 0, 0)
    assert module.memory_allocated(0) == 4096
    assert module.device_of_address(address) == 0
    module.raw_delete(address)
    assert module.memory_allocated(0) == 0


@on_one
def test_raw_memory_that_is_not_ours() -> None:
    module = emptied()
    address = module.raw_alloc(4096, 0, 0)
    module.raw_delete(address)
    for bad in (address, 12345):
        with pytest.raises(RuntimeError, match="invalid device pointer"):
            module.raw_delete(bad)
    assert module.device_of_address(12345) == -1


@on_one
def test_memory_that_a_busy_stream_uses_stays_taken() -> None:
    module = emptied()
    stream, x = torch.Stream("cuda"), torch.ones(1000, device="cuda")
    with stream:
        module.sleep(300_000_000)
    x.record_stream(stream)
    where = x.data_ptr()
    del x
    assert _stat("allocated_bytes.all.current") == 0
    assert _stat("active_bytes.all.current") == 4096
    assert torch.ones(1000, device="cuda").data_ptr() != where
    module.synchronize(0)
    assert torch.ones(1000, device="cuda").data_ptr() == where


def _pools() -> set[tuple[int, int]]:
    return {s["segment_pool_id"] for s in native().snapshot()["segments"]}


@on_one
def test_pools() -> None:
    module = emptied()
    module.pool_begin(0, 0, 7)
    inside = torch.ones(4, device="cuda")
    module.pool_end(0, 0, 7)
    outside = torch.ones(4, device="cuda")
    assert _pools() == {(0, 0), (0, 7)}
    assert module.pool_use_count(0, 0, 7) == 1
    del inside
    module.empty_cache(0, 7)
    assert _pools() == {(0, 0), (0, 7)}  # somebody still holds it
    module.pool_release(0, 0, 7)
    module.empty_cache(0, 7)
    assert _pools() == {(0, 0)}
    del outside


@on_one
def test_pinned_memory() -> None:
    x = torch.ones(1000).pin_memory()
    assert x.is_pinned()
    assert x[10:].is_pinned()
    assert not torch.ones(3).is_pinned()
    assert torch.empty(3, pin_memory=True).is_pinned()
    assert x.cuda(non_blocking=True).sum() == 1000


@on_one
def test_pinned_memory_is_counted() -> None:
    module = emptied()
    x = torch.ones(1000).pin_memory()
    assert module.host_stats()["allocation"]["current"] == 1
    assert module.host_stats()["allocated_bytes"]["current"] == 4096
    del x
    assert module.host_stats()["reserved_bytes"]["current"] > 0
    module.host_empty_cache()
    assert module.host_stats()["reserved_bytes"]["current"] == 0


@on_one
def test_the_devices_memory_is_not_pinned() -> None:
    words = "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned"
    with pytest.raises(RuntimeError, match=words):
        torch.ones(1, device="cuda").pin_memory()
