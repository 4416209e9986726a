"""Code that probes of several areas share."""

from __future__ import annotations

import gc
import os
import tempfile
from typing import Any

import torch
import torch.distributed as dist

from recorded.oracle.probing import raises, ramp


def captured(work: Any, **options: Any) -> Any:
    """Return a graph of some work, and what the work gave."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, **options):
        out = work()
    return graph, out


def during(work: Any) -> Any:
    """Return the refusal of an action during capture."""
    graph = torch.cuda.CUDAGraph()

    def run() -> None:
        with torch.cuda.graph(graph):
            work()

    return raises(run)


def clean() -> int:
    """Clear caches and histories; return the bytes that are still allocated."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    return torch.cuda.memory_allocated()


def stat(key: str) -> int:
    """Return a memory statistic; 0 if it is missing."""
    return torch.cuda.memory_stats().get(key, 0)


def filled(module: Any) -> Any:
    """Return a module on the device, with parameters that are the same everywhere."""
    module = module.cuda()
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(ramp(*p.shape) / 16)
    return module


def group(backend: str | None = "nccl", **options: Any) -> None:
    """Initialize a process group of one rank, with a file store."""
    path = os.path.join(tempfile.mkdtemp(), "store")
    dist.init_process_group(backend, init_method=f"file://{path}", rank=0, world_size=1, **options)


def one(*values: float) -> torch.Tensor:
    """Return a tensor to send."""
    return torch.tensor(values or (1.0, 2.0), device="cuda")
