"""Calls that differ between ranks, in everything that NCCL needs to agree; and calls that differ in nothing it sees."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional

Cases = dict[str, Callable[[], Any]]


def _ones(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(*sizes, device="cuda", dtype=dtype)


def disagreements(rank: int, size: int, group: Any) -> Cases:
    """Calls of which the last rank's is another, by what it has other than the rest."""
    last, odd, op = size - 1, rank == size - 1, dist.ReduceOp
    root, more = int(odd), 10 + odd
    type_ = torch.int32 if odd else torch.float32

    def gather(to: int) -> None:
        dist.gather(_ones(2), [_ones(2) for _ in range(size)] if rank == to else None, to, group)

    def scatter(source: int) -> None:
        dist.scatter(_ones(2), [_ones(2) for _ in range(size)] if rank == source else None, source, group)

    def send() -> None:
        if rank == 0:
            dist.send(_ones(10), last, group)
        elif odd:
            dist.recv(_ones(5), 0, group)
        else:
            dist.barrier(group)

    def coalesce() -> None:
        with dist.distributed_c10d._coalescing_manager(group=group):
            for _ in range(3 - odd):
                dist.all_reduce(_ones(2), group=group)

    def split() -> None:
        out, back = [1] * size, [1] * size
        if odd:
            back[0] += 1  # the first rank sends it one
        dist.all_to_all_single(_ones(sum(back)), _ones(size), back, out, group)

    def keep() -> None:
        back = [2 if odd and one == rank else 1 for one in range(size)]
        dist.all_to_all([_ones(count) for count in back], [_ones(1) for _ in range(size)], group)

    def gather_unevenly() -> None:
        sizes = [2] * size if odd else [1, *[2] * (size - 1)]
        dist.all_gather([_ones(count) for count in sizes], _ones(sizes[rank]), group)

    def twice() -> None:
        dist.all_reduce(_ones(2), group=group)
        if odd:
            dist.all_reduce(_ones(2), group=group)
        else:
            dist.barrier(group)

    return {
        "reduction": lambda: dist.all_reduce(_ones(10), op.MAX if odd else op.SUM, group),
        "mean": lambda: dist.all_reduce(_ones(10), op.AVG if odd else op.SUM, group),
        "factor or none": lambda: dist.all_reduce(_ones(10), dist._make_nccl_premul_sum(0.5) if odd else op.SUM, group),
        "type": lambda: dist.all_reduce(_ones(10, dtype=type_), group=group),
        "type of eight bits": lambda: dist.all_reduce(
            _ones(10).to(torch.float8_e5m2 if odd else torch.float32), group=group
        ),
        "size": lambda: dist.all_reduce(_ones(more), group=group),
        "size of nothing": lambda: dist.all_reduce(_ones(0 if odd else 10), group=group),
        "collective": lambda: dist.barrier(group) if odd else dist.all_reduce(_ones(10), group=group),
        "number of collectives": twice,
        "broadcast's root": lambda: dist.broadcast(_ones(10), root, group),
        "broadcast's size": lambda: dist.broadcast(_ones(more), 0, group),
        "reduce's root": lambda: dist.reduce(_ones(10), root, group=group),
        "reduce's reduction": lambda: dist.reduce(_ones(10), 0, op.MIN if odd else op.PRODUCT, group),
        "gather's root": lambda: gather(root),
        "scatter's root": lambda: scatter(root),
        "reduce_scatter's reduction": lambda: dist.reduce_scatter_tensor(
            _ones(2), _ones(2 * size), op.MAX if odd else op.SUM, group
        ),
        "reduce_scatter's size": lambda: dist.reduce_scatter_tensor(_ones(more), _ones(more * size), group=group),
        "all_gather's size": lambda: dist.all_gather_into_tensor(_ones(more * size), _ones(more), group),
        "all_gather's sizes": gather_unevenly,
        "splits": split,
        "what a rank keeps": keep,
        "sent": send,
        "coalesced": coalesce,
        "functional": lambda: functional.all_reduce(_ones(10), "max" if odd else "sum", group).add(1),
    }


def agreements(rank: int, size: int, group: Any) -> Cases:
    """Calls that differ in what NCCL does not see: each returns what it computed, and what it should have."""
    odd, op = rank == size - 1, dist.ReduceOp

    def reduce(tensor: torch.Tensor, reduction: Any = op.SUM) -> torch.Tensor:
        dist.all_reduce(tensor, reduction, group)
        return tensor.flatten()

    def broadcast() -> torch.Tensor:
        x = torch.zeros(1, device="cuda", dtype=torch.int64) if odd else _ones(2)
        dist.broadcast(x, 0, group)
        return x.view(torch.float32)

    def gather() -> torch.Tensor:
        x = _ones(size, 6) if odd else _ones(2 * size, 3)
        dist.all_gather_into_tensor(x, _ones(6) if odd else _ones(2, 3), group)
        return x.flatten()

    def late() -> torch.Tensor:
        x = _ones(3)
        work = dist.all_reduce(x, group=group, async_op=odd)
        if work is not None:
            work.wait()
        return x

    def factor() -> torch.Tensor:
        return reduce(_ones(2), dist._make_nccl_premul_sum(3.0 if odd else 1.0))

    return {
        "shape": lambda: (reduce(_ones(6) if odd else _ones(2, 3)), [float(size)] * 6),
        "reductions of booleans": lambda: (
            reduce(_ones(2, dtype=torch.bool), op.MAX if odd else op.SUM),
            [True] * 2,
        ),
        "bytes and booleans": lambda: (
            reduce(_ones(2, dtype=torch.bool if odd else torch.uint8), op.MAX),
            [1] * 2,
        ),
        "factors": lambda: (factor(), [size + 2.0] * 2),
        "type of what is moved": lambda: (broadcast(), [1.0] * 2),
        "shape of what is gathered": lambda: (gather(), [1.0] * 6 * size),
        "who waits": lambda: (late(), [float(size)] * 3),
    }


def disagree(rank: int, size: int, names: list[str] | None = None) -> dict[str, Any]:
    """Return each call's error and the seconds until it was raised."""
    found = {}
    for name in names or disagreements(rank, size, None):
        group = dist.new_group(timeout=datetime.timedelta(seconds=30))
        begun = time.monotonic()
        try:
            disagreements(rank, size, group)[name]()
            # One that asks for nothing may come past the call, and not past the next.
            dist.barrier(group)
            said = "nothing"
        except RuntimeError as error:
            said = str(error)
        found[name] = said, time.monotonic() - begun
    dist.barrier()  # the first rank has the store, which the others may still wait for
    return found


def agree(rank: int, size: int) -> dict[str, Any]:
    """Return the results of calls that NCCL accepts."""
    group, found = dist.new_group(), {}
    for name, call in agreements(rank, size, group).items():
        got, expected = call()
        if got.tolist() != expected:
            found[name] = got.tolist(), expected
    return found
