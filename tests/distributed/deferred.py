"""Programs of several ranks whose collectives run later than they are issued, for each seed of an order."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

import torchdevice_cuda

N = 1000
SEEDS = range(8)


def _of_every_seed(program: Callable[[], float]) -> list[float]:
    native = torchdevice_cuda.driver().native
    assert native is not None
    found = []
    for seed in SEEDS:
        torch.cuda.synchronize()
        native.start_deferral(seed)
        found.append(program())
    torch.cuda.synchronize()
    return found


def _begin(kind: str, rank: int, size: int) -> tuple[torch.Tensor, torch.Tensor, Any]:
    """Return an input, an output and work that adds or gathers the ranks' numbers, rank + 1."""
    x = torch.full((N,), rank + 1.0, device="cuda")
    if kind == "all_reduce":
        return x, x, dist.all_reduce(x, async_op=True)
    if kind == "all_gather":
        out = torch.zeros(size * N, device="cuda")
        return x, out, dist.all_gather_into_tensor(out, x, async_op=True)
    out = torch.zeros(N, device="cuda")
    peer = 1 - rank
    ops = [dist.P2POp(dist.isend, x, peer), dist.P2POp(dist.irecv, out, peer)]
    works = dist.batch_isend_irecv(ops)
    return x, out, works[0]


def use_results(rank: int, size: int, kind: str, waits: bool) -> list[float]:
    """Use the output, after a wait or without one."""

    def program() -> float:
        _, out, work = _begin(kind, rank, size)
        if waits:
            work.wait()
        twice = out * 2
        work.wait()
        return twice.sum().item()

    return _of_every_seed(program)


def rewrite_inputs(rank: int, size: int, kind: str, waits: bool) -> list[float]:
    """Rewrite the input, after a wait or without one; return the sum of the output."""

    def program() -> float:
        x, out, work = _begin(kind, rank, size)
        if waits:
            work.wait()
        if out is x:
            x.sub_(1)
        else:
            x.zero_()
        work.wait()
        return out.sum().item()

    return _of_every_seed(program)


def _add(rank: int, how: str) -> float:
    """Return the sum of the ranks' numbers on this rank, of N elements, in one of several ways to wait for it."""
    x = torch.full((N,), rank + 1.0, device="cuda")
    if how == "synchronous":
        dist.all_reduce(x)
        return x.sum().item()
    if how == "coalesced":
        y = x.clone()
        with dist._coalescing_manager(async_ops=True) as manager:
            dist.all_reduce(x)
            dist.all_reduce(y)
        manager.wait()
        return ((x + y) / 2).sum().item()
    if how == "barrier":
        dist.all_reduce(x)
        host = torch.zeros(N).pin_memory()
        host.copy_(x, non_blocking=True)
        dist.barrier()
        return host.sum().item()
    if how == "side stream":
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            dist.all_reduce(x)
        torch.cuda.current_stream().wait_stream(side)
        return x.sum().item()
    work = dist.all_reduce(x, async_op=True)
    assert work is not None
    if how == "future":
        work.get_future().wait()
    elif how == "callback":
        found = work.get_future().then(lambda done: done.value()[0] * 2).wait()
        return found.sum().item() / 2
    elif how == "device":
        torch.cuda.synchronize()
    else:
        assert how == "polling"
        while not work.is_completed():
            time.sleep(0.001)
    return x.sum().item()


WAITS = ("synchronous", "coalesced", "barrier", "side stream", "future", "callback", "device", "polling")


def wait_in_every_way(rank: int, size: int) -> dict[str, list[float]]:
    return {how: _of_every_seed(lambda how=how: _add(rank, how)) for how in WAITS}  # type: ignore[misc]


def wait_outside(rank: int, size: int) -> float:
    """Let one rank wait for a collective, and the other, which has only issued it, for the first rank's message."""
    store = dist.distributed_c10d._get_default_store()
    x = torch.full((N,), rank + 1.0, device="cuda")
    work = dist.all_reduce(x, async_op=True)
    assert work is not None
    if rank == 0:
        work.wait()
        total = x.sum().item()
        store.set("total", str(total))
    else:
        total = float(store.get("total"))
        work.wait()
        assert x.sum().item() == total
    return total


def use_two_groups(rank: int, size: int) -> float:
    """Begin collectives of two groups in another order on each rank."""
    groups = [dist.new_group(range(size)), dist.new_group(range(size))]
    tensors = [torch.full((N,), rank + 1.0, device="cuda") for _ in groups]
    order = [0, 1] if rank == 0 else [1, 0]
    works = {one: dist.all_reduce(tensors[one], group=groups[one], async_op=True) for one in order}
    for one in order:
        works[one].wait()
    return (tensors[0] + tensors[1]).sum().item()
