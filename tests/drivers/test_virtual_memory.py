"""The virtual GPU's memory, asked as the rest of the package asks it: each question reaches the allocator."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import pytest
import torch
from harness import VIRTUAL, child
from recorded import read_record

import torchdevice_cuda
from torchdevice_cuda.drivers import allocation
from torchdevice_cuda.drivers.memory import COMMON, Memory, Recording

MIB, GIB = 1 << 20, 1 << 30
TWO = VIRTUAL.with_settings(devices=2, memory="1GiB")
ASYNC = TWO.within(PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync,max_split_size_mb:30")
#: Expressions, and what an H200 answered.
FACTS = read_record("facts-cuda.json")
on_two, on_async = child(TWO), child(ASYNC)


def memory() -> Memory:
    torch.cuda.init()
    return torchdevice_cuda.driver().memory


def flat(stats: dict[str, Any], before: str = "") -> dict[str, int]:
    found: dict[str, int] = {}
    for name, value in stats.items():
        found |= flat(value, f"{before}{name}.") if isinstance(value, dict) else {before + name: value}
    return found


# ------------------------------------------------------------------------------- figures
@on_two
def test_statistics_are_of_one_device() -> None:
    held = memory()
    block = held.allocate(3 * MIB, 1, 0)
    stats = held.stats(1)
    assert stats["allocated_bytes"]["all"]["current"] == 3 * MIB
    assert held.stats(0)["allocated_bytes"]["all"]["current"] == 0
    assert held.info(1)[1] == GIB
    assert held.in_use(1) == held.info(1)[1] - held.info(1)[0] == stats["reserved_bytes"]["all"]["current"]
    held.release(block)
    held.reset_peak(1)
    assert held.stats(1)["allocated_bytes"]["all"]["peak"] == 0
    held.reset_accumulated(1)
    assert held.stats(1)["allocated_bytes"]["all"]["allocated"] == 0
    held.empty_cache()
    assert held.stats(1)["reserved_bytes"]["all"]["current"] == 0
    assert "every allocation" in held.source


@on_two
@pytest.mark.parametrize("device", [-1, 2])
def test_a_device_that_is_not_there(device: int) -> None:
    held = memory()
    for asked in (held.stats, held.reset_peak, held.reset_accumulated):
        with pytest.raises(RuntimeError, match=f"^Invalid device argument {device}: did you call init\\?$"):
            asked(device)


@on_two
def test_pinned_memory_is_counted_under_cudas_names() -> None:
    held = memory()
    assert sorted(flat(held.host_stats())) == FACTS["sorted(c.host_memory_stats())"][1]
    held.empty_host_cache()
    held.reset_host_accumulated()
    held.reset_host_peak()
    before = held.host_stats()
    one = torch.ones(1000).pin_memory()
    stats = held.host_stats()
    assert stats["num_host_alloc"] - before["num_host_alloc"] == 1
    for name in ("allocations", "active_requests", "allocated_bytes", "active_bytes"):
        assert stats[name]["current"] > before[name]["current"], name
    assert stats["allocations"]["current"] == stats["active_requests"]["current"] == 1
    assert stats["active_bytes"]["current"] >= 4000
    assert stats["host_alloc_time"]["count"] == 1
    del one
    after = held.host_stats()
    assert after["active_requests"]["current"] == 0
    assert after["allocations"]["current"] == 1, "it is kept for reuse"
    held.empty_host_cache()
    gone = held.host_stats()
    assert gone["allocations"]["current"] == 0
    assert gone["num_host_free"] - after["num_host_free"] == 1
    assert gone["host_free_time"]["count"] == after["host_free_time"]["count"] + 1
    assert gone["allocated_bytes"]["peak"] >= 4000
    held.reset_host_peak()
    assert held.host_stats()["allocated_bytes"]["peak"] == 0
    held.reset_host_accumulated()
    assert held.host_stats()["allocated_bytes"]["allocated"] == 0


# ------------------------------------------------------------------------------ settings
@on_two
def test_settings_reach_the_allocator() -> None:
    held = memory()
    held.empty_cache()

    def reserved(size: int) -> int:
        held.empty_cache()
        block = held.allocate(size, 0, 0)
        found: int = held.stats(0)["reserved_bytes"]["all"]["current"]
        held.release(block)
        held.empty_cache()
        return found

    try:
        assert reserved(11 * MIB) == 12 * MIB
        assert reserved(3 * MIB) == 20 * MIB
        held.configure("large_segment_size_mb:40")
        assert reserved(3 * MIB) == 40 * MIB
        held.configure("large_segment_size_mb:20,roundup_power2_divisions:2")
        block = held.allocate(33 * MIB, 0, 0)
        assert held.stats(0)["allocated_bytes"]["all"]["current"] == 48 * MIB, "to the half of a power of two"
        held.release(block)
        held.empty_cache()
        held.configure("expandable_segments:True")
        block = held.allocate(3 * MIB, 0, 0)
        assert [segment["is_expandable"] for segment in held.snapshot()["segments"]] == [True]
        held.release(block)
        held.empty_cache()
        assert held.settings.expandable
    finally:
        held.configure("expandable_segments:False,large_segment_size_mb:20")
        held.empty_cache()


@on_two
def test_blocks_that_may_not_be_cut() -> None:
    held = memory()
    held.configure("max_split_size_mb:20")
    try:
        block = held.allocate(30 * MIB, 0, 0)
        held.release(block)
        other = held.allocate(2 * MIB, 0, 0)
        assert held.stats(0)["reserved_bytes"]["all"]["current"] == 50 * MIB, "the large one is left whole"
        held.release(other)
    finally:
        held.configure("")
        held.empty_cache()


@on_two
def test_caching_may_be_switched_off() -> None:
    held = memory()
    held.empty_cache()
    assert held.caching
    held.set_caching(False)
    try:
        assert not held.caching
        block = held.allocate(MIB, 0, 0)
        assert held.stats(0)["allocated_bytes"]["all"]["current"] == 0, "beside the books"
        held.release(block)
        assert held.stats(0)["reserved_bytes"]["all"]["current"] == 0
    finally:
        held.set_caching(True)
    block = held.allocate(MIB, 0, 0)
    held.release(block)
    assert held.stats(0)["reserved_bytes"]["all"]["current"] > 0
    held.empty_cache()


@child(TWO.within(PYTORCH_NO_CUDA_MEMORY_CACHING="1", PYTORCH_CUDA_ALLOC_CONF="per_process_memory_fraction:0.5"))
def test_the_environment_is_read_at_initialization() -> None:
    held = memory()
    block = held.allocate(MIB, 0, 0)
    assert held.stats(0)["allocated_bytes"]["all"]["current"] == 0, "nothing is cached"
    held.release(block)
    held.set_caching(True)
    block = held.allocate(MIB, 0, 0)
    assert held.stats(0)["allocated_bytes"]["all"]["current"] == 0, "not even if the program wants it"
    held.release(block)
    assert [held.fraction(device) for device in range(2)] == [0.5, 0.5]
    held.configure("per_process_memory_fraction:0.25")
    assert held.fraction(0) == 0.5


@on_two
def test_a_share_of_the_memory() -> None:
    held = memory()
    held.set_fraction(0.25, 1)
    try:
        assert [held.fraction(device) for device in range(2)] == [1.0, 0.25]
        with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate 300.00 MiB"):
            held.allocate(300 * MIB, 1, 0)
        held.release(held.allocate(300 * MIB, 0, 0))
    finally:
        held.set_fraction(1.0, 1)
        held.empty_cache()


@on_two
def test_memory_that_is_refused_before_it_is_asked_for() -> None:
    """As torch's own option has it: what would not fit is not even tried."""
    held = memory()
    held.configure("throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.5")
    try:
        before = held.stats(0).get("num_oom_rejections", 0)
        with pytest.raises(torch.OutOfMemoryError):
            held.allocate(600 * MIB, 0, 0)
        assert held.stats(0)["num_oom_rejections"] == before + 1
        held.release(held.allocate(400 * MIB, 0, 0))
    finally:
        held.configure("throw_on_cudamalloc_oom:False,per_process_memory_fraction:1.0")
        held.empty_cache()
    held.release(held.allocate(600 * MIB, 0, 0))
    held.empty_cache()


# ------------------------------------------------------------------------------- history
@on_two
def test_history_keeps_the_newest_entries() -> None:
    held = memory()

    def entries() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = held.snapshot()["device_traces"][0]
        return found

    held.set_metadata("of mine")
    assert held.metadata == "of mine"
    held.record_history(Recording("all", context="all", max_entries=100, clear=True))
    block = held.allocate(MIB, 0, 0)
    frames = held.frames_at(block)
    assert frames is not None
    assert [frame["name"] for frame in frames][:1] == ["test_history_keeps_the_newest_entries"], (
        "nothing of ours is shown"
    )
    held.release(block)
    assert {entry["user_metadata"] for entry in entries()} == {"of mine"}
    assert "free_completed" in {entry["action"] for entry in entries()}
    assert held.snapshot(with_traces=False)["device_traces"][0] == []
    held.set_metadata("")
    held.record_history(Recording("all", context=None, max_entries=100, clear=True))
    block = held.allocate(MIB, 0, 0)
    (alloc,) = (entry for entry in entries() if entry["action"] == "alloc")
    assert not alloc.get("frames")
    assert not held.frames_at(block)
    held.release(block)
    held.record_history(Recording("all", context="alloc", max_entries=100, clear=True, skipped=["alloc"]))
    held.release(held.allocate(MIB, 0, 0))
    assert "alloc" not in {entry["action"] for entry in entries()} and entries()
    held.record_history(Recording("state", context="state", max_entries=100, clear=True))
    held.release(held.allocate(MIB, 0, 0))
    assert len(entries()) <= 1, "the last event alone"
    held.record_history(Recording(None))
    held.release(held.allocate(MIB, 0, 0))
    assert len(entries()) <= 1
    held.empty_cache()


@on_two
@pytest.mark.parametrize(("context", "freed_at"), [("state", None), ("alloc", 0), ("all", 1)])
def test_of_what_stacks_are_kept(context: str, freed_at: int | None) -> None:
    """Record stacks of blocks alone; of allocation events, too; of free events, too."""
    held = memory()
    held.record_history(Recording("all", context=context, max_entries=100, clear=True))
    here = sys._getframe().f_lineno + 1
    block = held.allocate(MIB, 0, 0)
    known = held.frames_at(block)
    held.release(block)
    lines = {
        entry["action"]: entry["frames"][0]["line"] - here if entry.get("frames") else None
        for entry in held.snapshot()["device_traces"][0]
    }
    held.record_history(Recording(None, clear=True))
    held.empty_cache()
    assert known is not None
    assert known[0]["line"] == here
    assert lines["alloc"] == (None if context == "state" else 0)
    assert lines["free_completed"] == (freed_at if freed_at != 1 else 2)


# --------------------------------------------------------------------------------- pools
@on_two
def test_pools_have_holders_and_blocks() -> None:
    held = memory()
    pool = torch.cuda.graph_pool_handle()
    held.retain_pool(1, pool)
    held.enter_pool(1, pool)
    assert held.pool_holders(1, pool) == 2
    assert held.pool_holders(0, pool) == 0
    block = held.allocate(MIB, 1, 0)
    held.leave_pool(1, pool)
    other = held.allocate(MIB, 1, 0)
    assert [segment["segment_pool_id"] for segment in held.snapshot(pool)["segments"]] == [pool]
    assert len(held.snapshot()["segments"]) == 2
    assert held.snapshot()["allocator_settings"] == held.settings.shown()
    held.release(block)
    held.release(other)
    held.empty_cache()
    assert len(held.snapshot()["segments"]) == 1, "somebody holds the pool"
    held.release_pool(1, pool)
    held.release_pool(1, pool)
    held.empty_cache(pool)
    held.empty_cache()
    assert held.snapshot()["segments"] == []


@on_two
def test_a_pool_may_be_everybodys() -> None:
    import threading

    held = memory()
    for every_thread in (False, True):
        pool, found = torch.cuda.graph_pool_handle(), []
        held.enter_pool(0, pool, every_thread)
        thread = threading.Thread(target=lambda found=found: found.append(held.allocate(MIB, 0, 0)))
        thread.start()
        thread.join()
        held.leave_pool(0, pool)
        assert bool(held.snapshot(pool)["segments"]) is every_thread
        held.release(found[0])
        held.release_pool(0, pool)
        held.empty_cache(pool)
        held.empty_cache()


@on_two
def test_a_pool_may_leave_its_blocks_whole() -> None:
    held = memory()
    counts = []
    for no_split in (False, True):
        pool = torch.cuda.graph_pool_handle()
        held.enter_pool(0, pool)
        held.set_pool_options(0, pool, use_on_oom=False, no_split=no_split)
        blocks = [held.allocate(2 * MIB, 0, 0) for _ in range(2)]
        counts.append(len(held.snapshot(pool)["segments"]))
        for block in blocks:
            held.release(block)
        held.leave_pool(0, pool)
        held.release_pool(0, pool)
        held.empty_cache(pool)
    assert counts == [1, 2]
    held.empty_cache()


@on_two
def test_a_pools_free_blocks_may_be_lent() -> None:
    held = memory()
    for use_on_oom in (True, False):
        pool = torch.cuda.graph_pool_handle()
        held.enter_pool(0, pool)
        held.set_pool_options(0, pool, use_on_oom=use_on_oom, no_split=False)
        held.release(held.allocate(900 * MIB, 0, 0))
        held.leave_pool(0, pool)
        if use_on_oom:
            held.release(held.allocate(800 * MIB, 0, 0))
        else:
            with pytest.raises(torch.OutOfMemoryError):
                held.allocate(800 * MIB, 0, 0)
        held.release_pool(0, pool)
        held.empty_cache(pool)
        held.empty_cache()


@on_two
def test_observers_are_told() -> None:
    held, told = memory(), []
    held.on_out_of_memory(lambda *said: told.append(said))
    with pytest.raises(torch.OutOfMemoryError):
        held.allocate(2 * GIB, 1, 0)
    assert [(device, wanted) for device, wanted, *_ in told] == [(1, 2 * GIB)]
    error = held.out_of_memory(3 * GIB // 2, 0)
    assert isinstance(error, torch.OutOfMemoryError)
    assert str(error) == "CUDA out of memory. Tried to allocate 1.50 GiB."


# ------------------------------------------------------------------------ cudaMallocAsync
@on_async
def test_the_other_allocator_tells_less() -> None:
    held = memory()
    one = torch.ones(4001, dtype=torch.uint8, device="cuda")
    shown = flat(held.stats(0))
    assert shown["allocated_bytes.all.current"] == shown["active_bytes.all.current"] == 4001, "to the byte"
    assert shown["reserved_bytes.all.current"] == shown["reserved_bytes.all.peak"] == 32 * MIB
    assert {name for name, value in shown.items() if value} == {
        f"{kind}_bytes.all.{figure}" for kind in ("allocated", "active", "reserved") for figure in ("current", "peak")
    }
    del one
    assert flat(held.stats(0))["allocated_bytes.all.current"] == 0
    assert flat(held.stats(0))["allocated_bytes.all.peak"] == 4001
    assert held.settings.backend == allocation.ASYNC
    assert held.shown_split == 0


@on_async
def test_limits_of_the_other_allocator() -> None:
    held = memory()
    words = "^cudaMallocAsync does not yet support {}. If you need it, please file an issue describing your use case.$"
    for name, call in {
        "recordHistory": lambda: held.record_history(Recording("all")),
        "createOrIncrefPool": lambda: held.retain_pool(0, (1, 2)),
        "attachOutOfMemoryObserver": lambda: held.on_out_of_memory(print),
    }.items():
        with pytest.raises(RuntimeError, match=words.format(name)):
            call()
    with pytest.raises(RuntimeError, match="^Calling snapshot with backend:cudaMallocAsync is not meaningful"):
        held.snapshot()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        held.reset_accumulated(0)
    assert [str(each.message) for each in said] == ["For backend:cudaMallocAsync, resetAccumulatedStats has no effect."]
    with pytest.raises(RuntimeError, match="^Invalid device argument 2"):
        held.reset_accumulated(2)
    assert COMMON == (0, 0)


@on_async
def test_options_of_the_first_allocator_do_not_act() -> None:
    held = memory()
    assert held.settings.max_split == allocation.NEVER
    block = held.allocate(33 * MIB, 0, 0)
    held.configure("roundup_power2_divisions:2")
    other = held.allocate(33 * MIB, 0, 0)
    assert held.stats(0)["allocated_bytes"]["all"]["current"] == 66 * MIB
    held.release(block)
    held.release(other)
