"""Memory of a device that is the process's own: figures, raw blocks, refusals, snapshots, history, pools, limits."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch
from recorded import read_record

from torchdevice_cuda.drivers import allocation
from torchdevice_cuda.drivers.host import machine, memory
from torchdevice_cuda.drivers.host.memory import Gauge, ProcessMemory, high_water_mark
from torchdevice_cuda.drivers.memory import COMMON, Recording

MIB, GIB = 1 << 20, 1 << 30
#: Expressions, and what an H200 answered.
FACTS = read_record("facts-cuda.json")
#: Two devices of so much, of a machine with room.
LIMIT = 256 * MIB
BYTES = ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes")


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> ProcessMemory:
    monkeypatch.setattr(machine, "limit", lambda: 64 * GIB)
    monkeypatch.setattr(machine, "available", lambda: 32 * GIB)
    return ProcessMemory(2, LIMIT)


def resident(held: ProcessMemory, size: int) -> None:
    """Have the system say that the process holds so much."""
    held._process = SimpleNamespace(memory_info=lambda: SimpleNamespace(rss=size))  # type: ignore[assignment]


# ------------------------------------------------------------------------------- gauges
def test_a_gauge_keeps_peak_rises_and_falls() -> None:
    gauge = Gauge()
    assert gauge.as_dict() == {"current": 0, "peak": 0, "allocated": 0, "freed": 0}
    gauge.set(10)
    gauge.add(-4)
    gauge.add(1)
    assert gauge.as_dict() == {"current": 7, "peak": 10, "allocated": 11, "freed": 4}
    gauge.reset_accumulated()
    assert gauge.as_dict() == {"current": 7, "peak": 10, "allocated": 0, "freed": 0}
    gauge.reset_peak()
    assert gauge.as_dict() == {"current": 7, "peak": 7, "allocated": 0, "freed": 0}


def test_the_high_water_mark_is_what_the_system_says() -> None:
    """The program says what it held at most, and the system what that was."""
    code = (
        "import resource, sys; from torchdevice_cuda.drivers.host.memory import high_water_mark; "
        "held = bytes([1]) * (300 << 20); del held; "
        "print(high_water_mark(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    mark, used = map(int, shown.stdout.split())
    # What the system says of a process begins with what the one held that started it.
    assert 300 * MIB < mark <= used * 1024 * 1.02
    assert mark < 600 * MIB


@pytest.mark.parametrize(("platform", "unit"), [("darwin", 1), ("freebsd14", 1024)])
def test_other_systems_count_in_units_of_their_own(monkeypatch: pytest.MonkeyPatch, platform: str, unit: int) -> None:
    import resource

    monkeypatch.setattr(sys, "platform", platform)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = high_water_mark()
    assert found is not None
    assert before * unit <= found <= resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_the_high_water_mark_to_the_byte() -> None:
    def read() -> int:
        return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) * 1024

    before = read()
    found = high_water_mark()
    assert found is not None
    assert before <= found <= read()


def test_a_system_that_keeps_no_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "resource", None)
    assert high_water_mark() is None


# ------------------------------------------------------------------------------ statistics
def test_allocated_is_what_the_process_holds_since_it_began(held: ProcessMemory) -> None:
    resident(held, 100 * MIB)
    assert held.stats(0)["allocated_bytes"]["all"]["current"] == 0, "it has not begun"
    assert held.baseline is None
    held.start()
    resident(held, 130 * MIB)
    held.start()  # once
    assert held.baseline == 100 * MIB
    held._mark_at_reset = None  # the mark of this very process is another figure
    figures = {"current": 30 * MIB, "peak": 30 * MIB, "allocated": 30 * MIB, "freed": 0}
    stats = held.stats(0)
    for name in BYTES:
        assert (stats[name]["all"], stats[name]["large_pool"]) == (figures, figures), name
        assert set(stats[name]["small_pool"].values()) == {0}
    assert set(held.stats(1)["allocated_bytes"]["all"].values()) == {0}, "it is shown on the first device"
    resident(held, 90 * MIB)
    assert held.stats(0)["allocated_bytes"]["all"] == {
        "current": 0,
        "peak": 30 * MIB,
        "allocated": 30 * MIB,
        "freed": 30 * MIB,
    }
    held.reset_accumulated(0)
    figures = held.stats(0)["allocated_bytes"]["all"]
    assert (figures["allocated"], figures["freed"]) == (0, 0)


def test_a_peak_between_two_questions_is_the_systems(held: ProcessMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    marks = iter([200 * MIB, 200 * MIB, 250 * MIB, 250 * MIB, 250 * MIB, 250 * MIB, 251 * MIB])
    monkeypatch.setattr(memory, "high_water_mark", lambda: next(marks))
    held._mark_at_reset = memory.high_water_mark()
    resident(held, 100 * MIB)
    held.start()
    assert held.stats(0)["allocated_bytes"]["all"]["peak"] == 0, "a mark of before"
    assert held.stats(0)["allocated_bytes"]["all"]["peak"] == 150 * MIB, "above the one of the reset"
    held.reset_peak(0)  # which looks twice
    assert held.stats(0)["allocated_bytes"]["all"]["peak"] == 0
    assert held.stats(0)["allocated_bytes"]["all"]["peak"] == 151 * MIB


def test_counts_are_of_raw_blocks(held: ProcessMemory) -> None:
    first, second = held.allocate(1000, 1, 0), held.allocate(1, 1, 0)
    held.release(first)
    figures = {"current": 1, "peak": 2, "allocated": 2, "freed": 1}
    stats = held.stats(1)
    for name in ("allocation", "segment", "active"):
        assert (stats[name]["all"], stats[name]["large_pool"]) == (figures, figures), name
        assert set(stats[name]["small_pool"].values()) == {0}
    assert (stats["num_device_alloc"], stats["num_device_free"]) == (2, 1)
    assert held.stats(0)["num_device_alloc"] == 0
    held.reset_peak(1)
    held.reset_accumulated(1)
    assert held.stats(1)["allocation"]["all"] == {"current": 1, "peak": 1, "allocated": 0, "freed": 0}
    held.release(second)


def flat(stats: dict[str, Any], before: str = "") -> dict[str, int]:
    """Statistics as torch flattens them."""
    found: dict[str, int] = {}
    for name, value in stats.items():
        found |= flat(value, f"{before}{name}.") if isinstance(value, dict) else {before + name: value}
    return found


def test_the_names_of_statistics_are_cudas(held: ProcessMemory) -> None:
    shown = flat(held.stats(0))
    assert shown.pop("num_oom_rejections") == 0  # of releases after the one that was asked
    assert sorted(shown) == FACTS["sorted(c.memory_stats())"][1]
    assert {name for name, value in shown.items() if value} == {"max_split_size"}


@pytest.mark.parametrize("device", [-1, 2])
def test_a_device_that_is_not_there(held: ProcessMemory, device: int) -> None:
    words = re.escape(f"Invalid device argument {device}: did you call init?")
    for asked in (held.stats, held.reset_peak, held.reset_accumulated):
        with pytest.raises(RuntimeError, match=f"^{words}$"):
            asked(device)


def test_free_memory(held: ProcessMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    assert held.info(0) == (LIMIT, LIMIT)
    assert held.in_use(0) == 0
    resident(held, 100 * MIB)
    held.start()
    resident(held, 150 * MIB)
    assert held.info(0) == (LIMIT - 50 * MIB, LIMIT)
    assert held.in_use(0) == 50 * MIB
    monkeypatch.setattr(machine, "available", lambda: 7 * MIB)
    assert held.info(0) == (7 * MIB, LIMIT)
    resident(held, 5 * GIB)
    assert held.info(0) == (0, LIMIT)
    monkeypatch.setattr(machine, "limit", lambda: 128 * MIB)
    assert held.info(1) == (7 * MIB, 128 * MIB), "more than the machine has is not given"
    monkeypatch.setattr(machine, "available", lambda: 300 * MIB)
    assert ProcessMemory(1, None).info(0) == (128 * MIB, 128 * MIB)


# ----------------------------------------------------------------------------- allocation
def test_blocks_are_real_memory(held: ProcessMemory) -> None:
    import ctypes

    address = held.allocate(1000, 0, 0)
    ctypes.memset(address, 7, 1024)  # rounded up, as CUDA's are
    assert ctypes.string_at(address, 1024) == b"\7" * 1024
    held.release(address)
    for wrong in (address, 0xDEAD):
        with pytest.raises(RuntimeError, match=f"^invalid device pointer: {wrong:#x}$"):
            held.release(wrong)
    assert held.allocate(0, 0, 0) == 0
    assert held.stats(0)["num_device_alloc"] == 1


def test_an_allocation_that_does_not_fit_is_refused(held: ProcessMemory) -> None:
    told: list[tuple[int, ...]] = []
    held.on_out_of_memory(lambda *said: told.append(said))
    words = (
        r"^CUDA out of memory\. Tried to allocate 0\.38 GiB\. GPU 1 has a total capacity of 0\.25 GiB of which 0\.25 "
        r"GiB is free\. Including non-PyTorch memory, this process has 0\.00 GiB memory in use\.$"
    )
    with pytest.raises(torch.OutOfMemoryError, match=words):
        held.allocate(3 * LIMIT // 2, 1, 0)
    assert told == [(1, 3 * LIMIT // 2, LIMIT, LIMIT)]
    assert [held.stats(device)["num_ooms"] for device in range(2)] == [0, 1]
    for size in (LIMIT + 1, -1):
        with pytest.raises(torch.OutOfMemoryError):
            held.allocate(size, 0, 0)
    held.reset_accumulated(1)
    assert [held.stats(device)["num_ooms"] for device in range(2)] == [2, 0]


def test_a_device_that_is_in_use_says_how_much(held: ProcessMemory) -> None:
    resident(held, 0)
    held.start()
    resident(held, 64 * MIB)
    error = str(held.out_of_memory(GIB // 2, 0))
    assert "Tried to allocate 0.50 GiB. GPU 0 has a total capacity of 0.25 GiB of which 0.19 GiB is free" in error
    assert error.endswith("this process has 0.06 GiB memory in use.")


def test_no_device_has_an_exabyte(held: ProcessMemory) -> None:
    assert str(held.out_of_memory((1 << 60) - 1, 0)).startswith(
        "CUDA out of memory. Tried to allocate 1073741824.00 GiB"
    )
    assert str(held.out_of_memory(1 << 60, 0)) == "CUDA out of memory. Tried to allocate more than 1EB memory."


def test_observers_may_add_observers(held: ProcessMemory) -> None:
    calls: list[int] = []

    def observer(device: int, wanted: int, total: int, free: int) -> None:
        calls.append(wanted)
        held.on_out_of_memory(observer)

    held.on_out_of_memory(observer)
    held.out_of_memory(1, 0)
    assert calls == [1]


def test_the_hosts_refusal_is_cudas() -> None:
    """As torch's allocator words it."""
    held = ProcessMemory(1, None)
    try:
        torch.empty(1 << 61, dtype=torch.uint8)
    except RuntimeError as error:
        refused = error
    shown = held.translated(refused)
    assert isinstance(shown, torch.OutOfMemoryError), str(refused)
    assert "more than 1EB" in str(shown)
    assert held.stats(0)["num_ooms"] == 1
    other = RuntimeError("something else")
    assert held.translated(other) is other


def test_freed_memory_goes_back_to_the_system(held: ProcessMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed: list[int] = []
    library = SimpleNamespace(malloc_trim=trimmed.append)
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: library)
    held.empty_cache((1, 0))
    assert trimmed == [], "pools keep nothing of their own"
    held.empty_cache()
    assert trimmed == [0]
    held.empty_host_cache()
    assert trimmed == [0, 0]
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: SimpleNamespace())
    held.empty_cache()  # a library without it, such as musl
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(sys, "platform", "darwin")
    held.empty_cache()
    assert trimmed == [0, 0]


def test_freed_memory_really_goes_back() -> None:
    """Memory that malloc keeps in its arenas: many blocks below a last one."""
    held, process = ProcessMemory(1, None), psutil.Process()
    pieces = [bytearray(100_000) for _ in range(2000)]
    last = bytearray(100_000)
    before = process.memory_info().rss
    del pieces
    held.empty_cache()
    assert process.memory_info().rss < before - 100 * MIB
    assert last is not None


# ------------------------------------------------------------------------------ snapshots
def test_a_snapshot_shows_each_raw_block(held: ProcessMemory) -> None:
    small, large = held.allocate(1000, 1, 7), held.allocate(MIB + 1, 0, 0)
    held.enter_pool(0, [3, 4])  # type: ignore[arg-type]  # as torch hands them over
    pooled = held.allocate(MIB, 0, 0)
    held.leave_pool(0, (3, 4))
    shot = held.snapshot()
    assert list(shot) == ["segments", "device_traces", "allocator_settings", "external_annotations"]
    assert shot["device_traces"] == [[], []]
    assert shot["external_annotations"] == []
    assert shot["allocator_settings"] == allocation.Settings().shown()
    segments = {segment["address"]: segment for segment in shot["segments"]}
    assert list(segments) == sorted([small, large, pooled])
    assert segments[small] == {
        "device": 1,
        "address": small,
        "total_size": 1024,
        "allocated_size": 1024,
        "active_size": 1024,
        "requested_size": 1000,
        "stream": 7,
        "segment_type": "small",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": [{"address": small, "size": 1024, "requested_size": 1000, "state": "active_allocated", "frames": []}],
    }
    assert (segments[large]["segment_type"], segments[large]["total_size"]) == ("large", MIB + 512)
    assert (segments[pooled]["segment_type"], segments[pooled]["segment_pool_id"]) == ("small", (3, 4))
    assert [segment["address"] for segment in held.snapshot((3, 4))["segments"]] == [pooled]
    # torch's own reader of snapshots takes it.
    text = torch.cuda._memory_viz.segsum(shot)
    assert text.count("\n") > 3
    for address in segments:
        held.release(address)
    assert held.snapshot()["segments"] == []


def traced(held: ProcessMemory, device: int = 0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = held.snapshot()["device_traces"][device]
    return found


def test_history_is_kept_while_it_is_wanted(held: ProcessMemory) -> None:
    held.release(held.allocate(1, 0, 0))
    assert traced(held) == []
    held.record_history(Recording("all", max_entries=3))
    held.set_metadata("of this thread")
    import time

    begin = time.time_ns() // 1000
    address = held.allocate(600, 1, 5)
    held.release(address)
    first, second = traced(held, 1)
    assert traced(held, 0) == []
    assert begin <= first.pop("time_us") <= time.time_ns() // 1000
    assert first == {
        "action": "alloc",
        "addr": address,
        "size": 1024,
        "stream": 5,
        "frames": [],
        "compile_context": "N/A",
        "user_metadata": "of this thread",
        "pool_id": (0, 0),
    }
    assert second["action"] == "free_completed"
    held.set_metadata("")
    for _ in range(3):
        held.release(held.allocate(1, 1, 0))
    assert [entry["action"] for entry in traced(held, 1)] == ["free_completed", "alloc", "free_completed"]
    assert held.snapshot(with_traces=False)["device_traces"] == [[], []]
    held.record_history(Recording("all", max_entries=3, skipped=["alloc"]))
    assert len(traced(held, 1)) == 3, "what is there stays"
    held.release(held.allocate(1, 0, 0))
    assert [entry["action"] for entry in traced(held, 0)] == ["free_completed"]
    kept = traced(held, 0)
    held.record_history(Recording("state"))
    held.release(held.allocate(1, 0, 0))
    assert traced(held, 0) == kept, "nothing more is kept"
    held.record_history(Recording("all", max_entries=3, clear=True))
    assert traced(held, 0) == []
    held.release(held.allocate(1, 0, 0))
    held.record_history(Recording(None))
    assert traced(held, 0) == []


# ---------------------------------------------------------------------------------- pools
def test_pools_have_holders(held: ProcessMemory) -> None:
    held.retain_pool(0, (1, 2))
    held.retain_pool(0, [1, 2])  # type: ignore[arg-type]
    assert (held.pool_holders(0, (1, 2)), held.pool_holders(1, (1, 2)), held.pool_holders(0, (1, 3))) == (2, 0, 0)
    held.release_pool(0, (1, 2))
    assert held.pool_holders(0, (1, 2)) == 1
    for _ in range(2):  # once too often
        held.release_pool(0, (1, 2))
    assert held.pool_holders(0, (1, 2)) == 0
    held.retain_pool(0, (1, 2))
    assert held.pool_holders(0, (1, 2)) == 1


def test_a_pool_is_of_a_device_and_a_thread(held: ProcessMemory) -> None:
    held.enter_pool(0, (1, 2))
    held.enter_pool(0, (5, 6))
    assert held.pool_holders(0, (5, 6)) == 1
    addresses = [held.allocate(1, 0, 0), held.allocate(1, 1, 0)]
    thread = threading.Thread(target=lambda: addresses.append(held.allocate(1, 0, 0)))
    thread.start()
    thread.join()
    held.leave_pool(0, (5, 6))
    held.leave_pool(0, (7, 7))  # in which it is not
    addresses.append(held.allocate(1, 0, 0))
    held.leave_pool(0, (1, 2))
    addresses.append(held.allocate(1, 0, 0))
    of = {segment["address"]: segment["segment_pool_id"] for segment in held.snapshot()["segments"]}
    assert [of[address] for address in addresses] == [(5, 6), COMMON, COMMON, (1, 2), COMMON]


# --------------------------------------------------------------------------------- limits
def test_a_fraction_limits_blocks(held: ProcessMemory) -> None:
    assert (held.fraction(0), held.fraction(1)) == (1.0, 1.0)
    held.set_fraction(0.25, 0)
    assert (held.fraction(0), held.fraction(1)) == (0.25, 1.0)
    with pytest.raises(torch.OutOfMemoryError):
        held.allocate(LIMIT // 4 + 1, 0, 0)
    held.release(held.allocate(LIMIT // 4, 0, 0))
    held.release(held.allocate(LIMIT // 4 + 1, 1, 0))


def test_the_fraction_that_a_process_begins_with(held: ProcessMemory) -> None:
    held.apply(allocation.Settings(fraction=0.5))
    assert (held.fraction(0), held.fraction(1)) == (0.5, 0.5)
    held.apply(allocation.Settings(fraction=0.125, max_split=20 * MIB))
    assert held.fraction(0) == 0.5
    assert held.settings.max_split == 20 * MIB
    assert held.stats(0)["max_split_size"] == -1, "as it was when the device came up"
    whole = ProcessMemory(1, LIMIT)
    whole.set_fraction(0.5, 0)
    whole.apply(allocation.Settings())
    assert whole.fraction(0) == 0.5


def test_the_fraction_of_the_environment(held: ProcessMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "per_process_memory_fraction:0.75")
    assert held.fraction(1) == 0.75


# ------------------------------------------------------------------------- pinned memory
def test_no_memory_is_pinned(held: ProcessMemory) -> None:
    stats = flat(held.host_stats())
    assert sorted(stats) == FACTS["sorted(c.host_memory_stats())"][1]
    assert set(stats.values()) == {0}
    held.reset_host_peak()
    held.reset_host_accumulated()
    assert flat(held.host_stats()) == stats
