"""Short lives of an allocator, each in a few steps: figures and blocks after each."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch

RECORD = "allocator-h200.json"
MIB = 1 << 20
FIGURES = (
    *("allocated_bytes.all.current", "reserved_bytes.all.current", "active_bytes.all.current"),
    *("requested_bytes.all.current", "segment.all.current", "segment.large_pool.current"),
    *("inactive_split.all.current", "inactive_split_bytes.all.current", "num_device_alloc", "num_device_free"),
    *("num_alloc_retries", "num_ooms", "num_sync_all_streams", "oversize_allocations.current"),
    "oversize_segments.current",
)


def settings(text: str) -> None:
    """Have the allocator follow these."""
    newer = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    (newer or torch._C._cuda_cudaCachingAllocator_set_allocator_settings)(text)


def tensor(size: float) -> torch.Tensor:
    """So many MiB."""
    return torch.empty(int(size * MIB), dtype=torch.uint8, device="cuda")


def picture() -> dict[str, Any]:
    """Return the figures, and what memory is cut into; addresses are not compared, and neither is their order."""
    stats = torch.cuda.memory_stats()
    segments = [
        [
            *(s["total_size"], s["segment_type"], s["is_expandable"]),
            [[b["size"], b["requested_size"], b["state"]] for b in s["blocks"]],
        ]
        for s in torch.cuda.memory_snapshot()
    ]
    return {"figures": {name: stats[name] for name in FIGURES}, "segments": sorted(segments, key=str)}


def allow(size: float) -> None:
    """Let this process have so many MiB, less than a byte more or less."""
    torch.cuda.set_per_process_memory_fraction((size * MIB + 0.5) / torch.cuda.mem_get_info()[1])


def refused(size: float) -> str:
    """Describe how an allocation fails."""
    try:
        tensor(size)
    except torch.OutOfMemoryError as error:
        said = str(error)
        return said[: said.index(" GPU 0")] + said[said.index("MiB allowed") - 6 : said.index(" If reserved")]
    return "it did not"


def growing() -> Iterator[Any]:
    """Small and large blocks that come and go, in two streams."""
    a = tensor(0.3)
    yield picture()
    b = tensor(3)
    yield picture()
    c = tensor(30)
    yield picture()
    d, e = tensor(0.7), tensor(0.9)
    yield picture()
    del b
    yield picture()
    del c
    yield picture()
    f = tensor(41)
    yield picture()
    del d
    torch.cuda.empty_cache()
    yield picture()
    with torch.cuda.stream(torch.cuda.Stream()):
        g = tensor(5)
    yield picture()
    del f
    torch.cuda.empty_cache()
    yield picture()
    del a, e, g
    torch.cuda.empty_cache()
    yield picture()


def switching() -> Iterator[Any]:
    """Expandable segments wanted after others were made."""
    a = tensor(3)
    settings("expandable_segments:True")
    b, c = tensor(0.5), tensor(30)
    yield picture()
    del a, b, c
    torch.cuda.empty_cache()
    yield picture()


def oversize() -> Iterator[Any]:
    """Blocks too large to be cut."""
    a = tensor(300)
    yield picture()
    del a
    b = tensor(50)
    yield picture()
    c = tensor(290)
    yield picture()
    del b, c
    yield picture()
    d = tensor(270)
    yield picture()
    e = tensor(20)
    yield picture()
    del d
    f = tensor(150)
    yield picture()
    del e, f


def short() -> Iterator[Any]:
    """Oversize blocks that go back, as many as a request needs."""
    allow(500)
    a, b, c = tensor(120), tensor(130), tensor(140)
    del a, b
    yield picture()
    d = tensor(200)
    yield picture()
    del c, d
    yield picture()
    e = tensor(450)
    yield picture()
    yield refused(100)
    del e


def collecting() -> Iterator[Any]:
    """Old segments that go back before memory is short."""
    allow(200)
    kept = [tensor(20) for _ in range(6)]
    kept.clear()
    yield picture()
    a = tensor(30)
    yield picture()
    b = tensor(40)
    yield picture()
    c = tensor(60)
    yield picture()
    del a, b, c
    d = tensor(150)
    yield picture()
    del d


def rounding() -> Iterator[Any]:
    """Return the rounded sizes of requests."""
    for size in (1, 0.3, 1.1, 3, 5, 9, 17, 33, 70, 130, 300, 900):
        x = tensor(size)
        yield torch.cuda.memory_allocated()
        del x
        torch.cuda.empty_cache()


def whole() -> Iterator[Any]:
    """Pools whose blocks are not cut."""
    for pool in (torch.cuda.MemPool(), torch.cuda.MemPool(no_split=True)):
        with torch.cuda.use_mem_pool(pool):
            a, b, c = tensor(0.2), tensor(3), tensor(12)
            yield picture()
            del b
            d = tensor(2)
        yield picture()
        del a, c, d


def lending() -> Iterator[Any]:
    """A pool that others may use in need, and one that they may not."""
    for lends in (True, False):
        pool = torch.cuda.MemPool(use_on_oom=lends)
        with torch.cuda.use_mem_pool(pool):
            a = tensor(40)
        del a
        allow(60)
        yield picture()
        yield refused(35)
        yield picture()
        yield refused(70)
        yield picture()
        del pool
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()


class Scene(NamedTuple):
    """A sequence of allocations, and its settings."""

    settings: str
    play: Callable[[], Iterator[Any]]


SCENES = {
    "plain": Scene("", growing),
    "expandable": Scene("expandable_segments:True", growing),
    "large segments": Scene("large_segment_size_mb:64", growing),
    "switching": Scene("expandable_segments:False", switching),
    "oversize": Scene("expandable_segments:False,max_split_size_mb:100", oversize),
    "short": Scene("max_split_size_mb:100", short),
    "lenient": Scene("max_split_size_mb:100,max_non_split_rounding_mb:50", oversize),
    "collecting": Scene("garbage_collection_threshold:0.5", collecting),
    "rounding": Scene("roundup_power2_divisions:[1:2,4:4,16:8,64:1,256:0,>:2]", rounding),
    "rounding all": Scene("roundup_power2_divisions:4", rounding),
    "whole": Scene("", whole),
    "lending": Scene("", lending),
}
_DEFAULTS = "large_segment_size_mb:20,expandable_segments:False"


def played(name: str) -> list[Any]:
    """Play a scene on an empty device and return the statistics."""
    gc.collect()
    torch.cuda.init()
    torch.cuda.empty_cache()
    torch.cuda.reset_accumulated_memory_stats()
    settings(SCENES[name].settings)
    try:
        return list(SCENES[name].play())
    finally:
        settings(_DEFAULTS)
        settings("")
        torch.cuda.set_per_process_memory_fraction(1.0)
        gc.collect()
        torch.cuda.empty_cache()


def list_cases() -> dict[str, Callable[[], list[Any]]]:
    return {name: partial(played, name) for name in SCENES}
