"""The allocator as a GPU's: its settings, its history, and what happens when the machine itself has nothing left."""

from __future__ import annotations

import platform
import resource
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import VIRTUAL, child
from recorded import allocator as scenes
from recorded import find_differences

import torchdevice_cuda

MIB, GIB = 1 << 20, 1 << 30
on_virtual = child(VIRTUAL)


def _tensor(size: float) -> torch.Tensor:
    return scenes.tensor(size)


@on_virtual
def test_every_scene_is_the_gpus() -> None:
    """Figure by figure and block by block, after every step, what an NVIDIA H200 showed."""
    assert find_differences(scenes) == {}


# ------------------------------------------------------------------------------------ without a cache
@on_virtual
def test_memory_that_is_not_cached_is_in_no_book() -> None:
    torch.cuda.init()
    torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info()[0]
    torch.cuda.caching_allocator_enable(False)
    try:
        x = torch.ones(MIB, device="cuda")
        assert torch.cuda.memory_allocated() == torch.cuda.memory_reserved() == 0
        assert torch.cuda.memory_snapshot() == []
        assert torch.cuda.mem_get_info()[0] == free - 4 * MIB
        with pytest.raises(RuntimeError, match="^CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation'"):
            _tensor(1 << 20)
    finally:
        torch.cuda.caching_allocator_enable(True)
    assert (x + 1).sum() == 2 * MIB
    del x
    torch.cuda.empty_cache()
    assert torch.cuda.mem_get_info()[0] == free


@child(VIRTUAL.within(PYTORCH_NO_CUDA_MEMORY_CACHING="1"))
def test_the_environment_can_turn_the_cache_off() -> None:
    x = _tensor(3)
    assert torch.cuda.memory_allocated() == 0
    assert x.fill_(1).sum() == 3 * MIB


@child(VIRTUAL.within(PYTORCH_CUDA_ALLOC_CONF="throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.5"))
def test_requests_that_are_rejected_at_once() -> None:
    with pytest.raises(torch.OutOfMemoryError, match="was preemptively rejected because it would exceed per_process"):
        _tensor(torch.cuda.mem_get_info()[1] / MIB * 0.6)
    if torch.__version__ >= "2.13":  # which brought the figure
        assert torch.cuda.memory_stats()["num_oom_rejections"] == 1
    assert torch.cuda.memory_stats()["num_ooms"] == 0


@child(VIRTUAL.within(PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync"))
def test_cuda_malloc_async() -> None:
    assert torch.cuda.get_allocator_backend() == "cudaMallocAsync"
    x, y = _tensor(3.3), _tensor(30.1)
    stats = torch.cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] == stats["active_bytes.all.current"] == 35022437
    assert stats["reserved_bytes.all.current"] == 64 * MIB
    del x
    assert torch.cuda.memory_allocated() == 31562137
    assert {stats[name] for name in ("allocation.all.current", "num_device_alloc", "max_split_size")} == {0}
    for refused, words in (
        (torch.cuda.memory_snapshot, "Calling snapshot with backend:cudaMallocAsync is not meaningful."),
        (torch.cuda.memory._record_memory_history, "cudaMallocAsync does not yet support recordHistory. If you need"),
        (torch.cuda.MemPool, "cudaMallocAsync does not yet support createOrIncrefPool."),
        (lambda: scenes.settings("backend:native"), r"parsed at load time, \w+ != \w+$"),
    ):
        with pytest.raises(RuntimeError, match=words):
            refused()
    torch.cuda.set_per_process_memory_fraction(0.5)
    words = (
        r"^Allocation on device 0 would exceed allowed memory. \(out of memory\)\nCurrently allocated     : 30.10 MiB\n"
    )
    with pytest.raises(torch.OutOfMemoryError, match=words):
        _tensor(1 << 20)
    del y


# ----------------------------------------------------------------------------------------- history
def _allocate() -> torch.Tensor:
    return _tensor(3)


def _free(kept: list[torch.Tensor]) -> None:
    kept.pop()


def _history(**how: Any) -> list[tuple[str, list[str] | None]]:
    """Events and the functions in them, from here on outwards."""
    memory = torch.cuda.memory
    memory._record_memory_history(None)
    memory._record_memory_history(**{"stacks": "python", **how})
    kept = [_allocate()]
    _free(kept)
    torch.cuda.empty_cache()
    found = []
    for event in memory._snapshot()["device_traces"][0]:
        names = [frame["name"] for frame in event["frames"]] if "frames" in event else None
        found.append((event["action"], None if names is None else names[: names.index("_history")]))
    memory._record_memory_history(None)
    return found


ALLOCATED, FREED, EMPTIED = ["tensor", "_tensor", "_allocate"], ["_free"], ["empty_cache"]
EVENTS = ["segment_alloc", "alloc", "free_requested", "free_completed", "segment_free"]


@on_virtual
def test_stacks_of_history_events() -> None:
    """As on an H200: those of freeing where the program freed; of the segment, where it was told to give it back."""
    torch.cuda.empty_cache()
    stacks: list[Any] = [ALLOCATED, ALLOCATED, FREED, FREED, EMPTIED]
    assert _history() == list(zip(EVENTS, stacks, strict=True))
    assert _history(context="alloc")[:4] == [(event, ALLOCATED) for event in EVENTS[:4]]
    assert _history(context="state") == _history(context=None) == [(event, None) for event in EVENTS]
    assert _history(enabled="state") == _history(max_entries=0) == [("segment_free", EMPTIED)]
    assert _history(max_entries=2) == [("free_completed", FREED), ("segment_free", EMPTIED)]
    skipped = ["free_completed", "segment_alloc"]
    assert [event for event, _ in _history(skip_actions=skipped)] == [e for e in EVENTS if e not in skipped]
    for how, words in (
        ({"context": "x"}, "expected context to be 'state', 'alloc', 'all', or None"),
        ({"stacks": "x"}, "expected stacks to be 'python', or 'all'"),
        ({"enabled": "x"}, "expected state to be 'state', 'all', or None"),
        ({"skip_actions": ["x"]}, "Unknown TraceEntry action: x"),
    ):
        with pytest.raises(RuntimeError, match=f"^{words}"):
            _history(**how)


@on_virtual
@pytest.mark.skipif(
    torch.__version__ < "2.13" and platform.machine() != "x86_64", reason="torch unwinds no stacks there before 2.13"
)
def test_stacks_with_frames_of_cpp() -> None:
    torch.cuda.memory._record_memory_history()
    _ = _allocate()
    event = torch.cuda.memory._snapshot()["device_traces"][0][-1]
    names = [frame["name"] for frame in event["frames"]]
    assert "_allocate" in names
    assert any(name.startswith("at::") for name in names)
    torch.cuda.memory._record_memory_history(None)


@on_virtual
def test_call_site_and_context_of_a_block() -> None:
    memory = torch.cuda.memory
    assert torch._C._cuda_allocationTraceback(_allocate().data_ptr()) is None
    memory._record_memory_history(stacks="python", clear_history=True)
    x = _allocate()
    found = torch._C._cuda_allocationTraceback(x.data_ptr())
    assert [frame["name"] for frame in found][:3] == ALLOCATED
    assert torch._C._cuda_allocationTraceback(5) is None
    torch._C._cuda_setMemoryMetadata("weights")
    heard: list[str] = []
    thread = threading.Thread(target=lambda: heard.append(torch._C._cuda_getMemoryMetadata()))
    thread.start()
    thread.join()
    assert heard == [""]  # it is each thread's own
    with torch.profiler.record_function("mine"):
        y = _allocate()
    shot = memory._snapshot()
    assert [e["user_metadata"] for e in shot["device_traces"][0] if e["action"] == "alloc"] == ["", "weights"]
    named = [(note["name"], note["stage"], note["device"]) for note in shot["external_annotations"]]
    assert named == [("mine", "START", 0), ("mine", "END", 0)]
    torch._C._cuda_setMemoryMetadata("")
    memory._record_memory_history(None)
    del x, y


# ------------------------------------------------------------------------------ what the machine has
def _fill(most: int) -> int:
    """Allocate and write 64 MiB at a time; return the number of MiB until CUDA's error."""
    kept: list[torch.Tensor] = []
    words = "^CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total capacity of "
    with pytest.raises(torch.OutOfMemoryError, match=words):
        while len(kept) * 64 < most:
            kept.append(_tensor(64).fill_(1))
    return len(kept) * 64


@child(VIRTUAL.with_settings(memory="8GiB"), alone=True)
def test_a_process_with_a_limit_gets_the_error_and_lives() -> None:
    """RLIMIT_AS: the system refuses addresses."""
    torch.ones(3, device="cuda")
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + 700 * MIB, hard))
    try:
        assert 256 <= _fill(2048) <= 700
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert torch.ones(3, device="cuda").sum() == 3


@child(VIRTUAL.with_settings(memory="8GiB"), alone=True)
def test_a_control_group_that_is_almost_full() -> None:
    """Promised memory counts as used before it is touched."""
    native: Any = torchdevice_cuda.driver().native
    with tempfile.TemporaryDirectory() as folder:
        usage, statistics = Path(folder, "memory.current"), Path(folder, "memory.stat")
        usage.write_text(str(700 * MIB))
        statistics.write_text(f"anon 1\ninactive_file {100 * MIB}\n")
        native.watch_host([(1000 * MIB, str(usage), str(statistics))])
        assert native.host_left() == 350 * MIB  # a twentieth stays for everything else
        with pytest.raises(torch.OutOfMemoryError, match="of which 350.00 MiB is free"):
            _tensor(400)
        untouched = _tensor(200)
        assert native.host_left() == 150 * MIB
        with pytest.raises(torch.OutOfMemoryError, match="of which 150.00 MiB is free"):
            _tensor(300)
        untouched.fill_(1)
        usage.write_text(str(900 * MIB))
        assert native.host_left() == 150 * MIB
        del untouched
        usage.write_text(str(700 * MIB))
        assert _tensor(300).fill_(1)[-1] == 1  # what was cached went back for it
        native.watch_host([])
        assert _tensor(600).numel()


@pytest.mark.skipif(torch.__version__ < "2.13", reason="torch 2.13 brought these settings")
@on_virtual
def test_pinned_memory_that_is_not_rounded_and_not_kept() -> None:
    def pinned(size: int) -> torch.Tensor:
        return torch.empty(size * MIB, dtype=torch.uint8, pin_memory=True)

    def held() -> tuple[int, int]:
        stats = torch.cuda.host_memory_stats()
        return stats["allocations.current"], stats["allocated_bytes.current"] // MIB

    torch.cuda.init()
    torch._C._host_emptyCache()
    assert held() == (0, 0)
    first = pinned(3)
    assert held() == (1, 4)
    scenes.settings("pinned_max_round_threshold_mb:2,pinned_max_cached_size_mb:8")
    kept = [pinned(3), pinned(9), pinned(2)]
    assert held() == (4, 4 + 3 + 9 + 2)
    kept.clear()
    assert held() == (3, 4 + 3 + 2)
    del first
    torch._C._host_emptyCache()
    assert held() == (0, 0)


@child(VIRTUAL, alone=True)
def test_addresses_grow() -> None:
    """So that what is taken from the cache, lowest first, is where it was at first: as with CUDA's allocator."""
    sizes = [size * 2 << 20 for size in (4, 4, 1, 3, 3, 20, 20)]
    first = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in sizes]
    places = [x.data_ptr() for x in first]
    del first
    assert [torch.empty(size, dtype=torch.uint8, device="cuda").data_ptr() for size in sizes[:1]] == places[:1]
    again = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in sizes]
    assert [x.data_ptr() for x in again] == places
