"""The allocator's history and its options."""

from __future__ import annotations

import os
from typing import Any

import torch

from recorded.oracle.probing import probe, raises
from recorded.oracle.scenes import clean

MIB = 1 << 20


@probe()
def the_history() -> Any:
    clean()
    torch.cuda.memory._record_memory_history(max_entries=100)
    x = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    del x
    torch.cuda.empty_cache()
    s = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    trace = s["device_traces"][0]
    return [
        sorted(s),
        [[e["action"], e["size"], sorted(e)] for e in trace],
        type(trace[0]["frames"]).__name__,
        sorted(trace[0]["frames"][0]),
        any("empty" in f["name"] or f["name"] == "the_history" for f in trace[0]["frames"]),
    ]


@probe()
def history_limits() -> Any:
    clean()
    torch.cuda.memory._record_memory_history(max_entries=3)
    for _ in range(5):
        torch.empty(100, device="cuda")
    n = len(torch.cuda.memory._snapshot()["device_traces"][0])
    torch.cuda.memory._record_memory_history(enabled=None)
    return [
        n,
        raises(lambda: torch.cuda.memory._record_memory_history(enabled="all", context="bogus")),
        raises(lambda: torch.cuda.memory._record_memory_history(stacks="bogus")),
    ]


@probe()
def dumps_of_snapshots() -> Any:
    import pickle
    import tempfile

    torch.cuda.memory._record_memory_history()
    x = torch.empty(100, device="cuda")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "s.pickle")
        torch.cuda.memory._dump_snapshot(path)
        with open(path, "rb") as file:
            loaded = pickle.load(file)
    del x
    return [sorted(loaded), sorted(loaded["allocator_settings"])[:3]]


@probe(alone=True)
def settings_of_the_allocator() -> Any:
    s = torch.cuda.memory._snapshot()["allocator_settings"]
    return [
        s,
        raises(lambda: torch.cuda.memory._set_allocator_settings("bogus:1")),
        raises(lambda: torch.cuda.memory._set_allocator_settings("max_split_size_mb:1")),
        raises(lambda: torch.cuda.memory._set_allocator_settings("garbage_collection_threshold:2.0")),
        raises(
            lambda: torch.cuda.memory._set_allocator_settings("max_split_size_mb:64,garbage_collection_threshold:0.5")
        ),
        raises(lambda: torch.cuda.memory._set_allocator_settings("roundup_power2_divisions:3")),
        raises(lambda: torch.cuda.memory._set_allocator_settings("expandable_segments:maybe")),
        raises(lambda: torch.cuda.memory._set_allocator_settings("backend:bogus")),
    ]
