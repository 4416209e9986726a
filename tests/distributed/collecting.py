"""Every collective, in every type that NCCL takes, beside what the host computes of the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

WHOLE = (torch.int8, torch.uint8, torch.int32, torch.int64)
REAL = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
COMPLEX = (torch.complex64, torch.complex128)
EIGHTH = (torch.float8_e4m3fn, torch.float8_e5m2)
#: On the emulated Apple GPU there are fewer.
ON_MPS = (torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.int64, torch.uint8, torch.bool)
EVERY = (*WHOLE, *REAL, *COMPLEX, *EIGHTH, torch.bool)

Device = str
#: What was collected, and what should have been.
Pair = tuple[Any, Any]
Case = tuple[str, Pair]
_OPS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "SUM": lambda stacked: stacked.sum(0),
    "PRODUCT": lambda stacked: stacked.prod(0),
    "MIN": lambda stacked: stacked.amin(0),
    "MAX": lambda stacked: stacked.amax(0),
    "AVG": lambda stacked: stacked.sum(0) / len(stacked),
}


def numbers(rank: int, dtype: torch.dtype, count: int = 6, turn: int = 0) -> torch.Tensor:
    """Return a rank's input: small numbers, exact in every dtype."""
    whole = torch.arange(count) * (rank + 2) + rank + turn
    if dtype is torch.bool:
        return whole % 3 == 0
    small = (whole % 4).to(torch.float32)
    return torch.complex(small, small + 1).to(dtype) if dtype.is_complex else small.to(dtype)


def reduced(parts: list[torch.Tensor], op: str) -> torch.Tensor:
    """Return the reduction, computed in a type that holds it."""
    dtype = parts[0].dtype
    wide = torch.complex128 if dtype.is_complex else torch.float64
    value = _OPS[op](torch.stack([part.to(wide) for part in parts]))
    if dtype is torch.bool:
        return value != 0
    return value.trunc().to(dtype) if op == "AVG" and dtype in WHOLE else value.to(dtype)


def done(work: Any) -> None:
    """Wait for what was begun, if it was."""
    if work is not None:
        work.wait()


def _ops(dtype: torch.dtype) -> list[str]:
    if dtype.is_complex:
        return ["SUM", "AVG"]
    return ["SUM", "PRODUCT", "MIN", "MAX"] if dtype in (*EIGHTH, torch.bool) else list(_OPS)


def reductions(rank: int, size: int, device: Device, dtype: torch.dtype, later: bool) -> Iterator[Case]:
    have = [numbers(one, dtype) for one in range(size)]
    for op in _ops(dtype):
        asked = {"op": getattr(dist.ReduceOp, op), "async_op": later}
        x = have[rank].to(device)
        done(dist.all_reduce(x, **asked))
        yield f"all_reduce {op}", (x, reduced(have, op))
        x = have[rank].to(device)
        done(dist.reduce(x, size - 1, **asked))
        yield f"reduce {op}", (x, reduced(have, op) if rank == size - 1 else have[rank])
    wide = [numbers(one, dtype, 2 * size) for one in range(size)]
    op = "SUM" if dtype in (*EIGHTH, torch.bool) else "AVG"
    asked = {"op": getattr(dist.ReduceOp, op), "async_op": later}
    part, whole = torch.zeros(2, dtype=dtype).to(device), wide[rank].to(device)
    done(dist.reduce_scatter_tensor(part, whole, **asked))
    yield "reduce_scatter_tensor", (part, reduced(wide, op).chunk(size)[rank])
    yield "reduce_scatter_tensor leaves its input", (whole, wide[rank])
    part = torch.zeros(2, dtype=dtype).to(device)
    done(dist.reduce_scatter(part, list(wide[rank].to(device).chunk(size)), **asked))
    yield "reduce_scatter", (part, reduced(wide, op).chunk(size)[rank])
    lists = [[numbers(one, dtype, to + 1, to) for to in range(size)] for one in range(size)]
    part = torch.zeros(rank + 1, dtype=dtype).to(device)
    done(dist.reduce_scatter(part, [one.to(device) for one in lists[rank]], **asked))
    yield "reduce_scatter uneven", (part, reduced([one[rank] for one in lists], op))


def gathered(rank: int, size: int, device: Device, dtype: torch.dtype, later: bool) -> Iterator[Case]:
    have = [numbers(one, dtype) for one in range(size)]
    mine = have[rank].to(device)
    parts = [torch.zeros(6, dtype=dtype).to(device) for _ in range(size)]
    done(dist.all_gather(parts, mine, async_op=later))
    yield "all_gather", (torch.cat(parts), torch.cat(have))
    room = torch.zeros(6 * size, dtype=dtype).to(device)
    done(dist.all_gather_into_tensor(room, mine, async_op=later))
    yield "all_gather_into_tensor", (room, torch.cat(have))
    uneven = [numbers(one, dtype, one + 1) for one in range(size)]
    parts = [torch.zeros(one + 1, dtype=dtype).to(device) for one in range(size)]
    done(dist.all_gather(parts, uneven[rank].to(device), async_op=later))
    yield "all_gather uneven", (torch.cat(parts), torch.cat(uneven))
    x = have[rank].to(device)
    done(dist.broadcast(x, size - 1, async_op=later))
    yield "broadcast", (x, have[size - 1])
    wanted = [torch.zeros(6, dtype=dtype).to(device) for _ in range(size)] if rank == 1 else None
    done(dist.gather(mine, wanted, 1, async_op=later))
    if wanted is not None:
        yield "gather", (torch.cat(wanted), torch.cat(have))
    x = torch.zeros(6, dtype=dtype).to(device)
    done(dist.scatter(x, [one.to(device) for one in have] if rank == 1 else None, 1, async_op=later))
    yield "scatter", (x, have[rank])


def exchanged(rank: int, size: int, device: Device, dtype: torch.dtype, later: bool) -> Iterator[Case]:
    have = [numbers(one, dtype, 2 * size) for one in range(size)]
    x = torch.zeros(2 * size, dtype=dtype).to(device)
    done(dist.all_to_all_single(x, have[rank].to(device), async_op=later))
    yield "all_to_all_single", (x, torch.cat([one.chunk(size)[rank] for one in have]))
    # Rank r sends r + 1 rows of two to each.
    rows = [numbers(one, dtype, 2 * (one + 1) * size).reshape(-1, 2) for one in range(size)]
    counts = [one + 1 for one in range(size)]
    x = torch.zeros(sum(counts), 2, dtype=dtype).to(device)
    done(dist.all_to_all_single(x, rows[rank].to(device), counts, [rank + 1] * size, async_op=later))
    expected = torch.cat([one.chunk(size)[rank] for one in rows])
    yield "all_to_all_single uneven", (x, expected)
    parts = [torch.zeros(one + 1, 2, dtype=dtype).to(device) for one in range(size)]
    done(dist.all_to_all(parts, [one.contiguous() for one in rows[rank].to(device).chunk(size)], async_op=later))
    yield "all_to_all", (torch.cat(parts), expected)
    after, before = (rank + 1) % size, (rank - 1) % size
    x = torch.zeros(2 * size, dtype=dtype).to(device)
    mine = have[rank].to(device)
    for one in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, after), dist.P2POp(dist.irecv, x, before)]):
        one.wait()
    yield "batch_isend_irecv", (x, have[before])
    x = torch.zeros(2 * size, dtype=dtype).to(device)
    begun = [dist.isend(mine, after), dist.irecv(x, before)]
    for one in begun:
        done(one)
    yield "isend and irecv", (x, have[before])


def _empty(rank: int, size: int) -> dict[str, Callable[[torch.Tensor], Any]]:
    """Every collective, of a tensor that has nothing."""

    def exchange(x: torch.Tensor) -> None:
        after, before = (rank + 1) % size, (rank - 1) % size
        both = [dist.P2POp(dist.isend, x, after), dist.P2POp(dist.irecv, x.clone(), before)]
        for one in dist.batch_isend_irecv(both):
            one.wait()

    def coalesce(x: torch.Tensor) -> None:
        with dist.distributed_c10d._coalescing_manager():
            for one in (x, x.clone()):
                dist.all_reduce(one)

    return {
        "all_reduce": dist.all_reduce,
        "mean": lambda x: dist.all_reduce(x, dist.ReduceOp.AVG),
        "reduce": lambda x: dist.reduce(x, 0),
        "broadcast": lambda x: dist.broadcast(x, 0),
        "all_gather": lambda x: dist.all_gather([x] * size, x),
        "all_gather_into_tensor": lambda x: dist.all_gather_into_tensor(x.clone(), x),
        "gather": lambda x: dist.gather(x, [x.clone() for _ in range(size)] if rank == 0 else None),
        "scatter": lambda x: dist.scatter(x, [x.clone() for _ in range(size)] if rank == 0 else None),
        "reduce_scatter": lambda x: dist.reduce_scatter(x, [x.clone() for _ in range(size)]),
        "reduce_scatter_tensor": lambda x: dist.reduce_scatter_tensor(x, x.clone()),
        "all_to_all": lambda x: dist.all_to_all([x.clone() for _ in range(size)], [x] * size),
        "all_to_all_single": lambda x: dist.all_to_all_single(x, x.clone()),
        "exchange": exchange,
        "coalesced": coalesce,
    }


def others(rank: int, size: int, device: Device) -> Iterator[Case]:
    """Run the collectives that do not depend on a dtype."""
    x = numbers(rank, torch.float32).to(device)
    dist.all_reduce(x, op=dist._make_nccl_premul_sum(0.5))
    yield "premul", (x, reduced([numbers(one, torch.float32) * 0.5 for one in range(size)], "SUM"))
    x = torch.ones(2, 3, 4, 4).to(device, memory_format=torch.channels_last) * (rank + 1)
    dist.all_reduce(x)
    yield "channels_last", (x, torch.full((2, 3, 4, 4), size * (size + 1) / 2))
    for name, call in _empty(rank, size).items():
        x = torch.ones(0).to(device)
        call(x)
        yield f"{name} of nothing", (x, torch.ones(0))
    # What some ranks have nothing of: rank r sends r rows to each.
    x, counts = torch.zeros(sum(range(size)), 2).to(device), list(range(size))
    dist.all_to_all_single(x, torch.full((rank * size, 2), float(rank)).to(device), counts, [rank] * size)
    yield (
        "all_to_all_single with empty splits",
        (x, torch.arange(float(size)).repeat_interleave(torch.tensor(counts)).reshape(-1, 1).repeat(1, 2)),
    )
    parts = [torch.zeros(one).to(device) for one in range(size)]
    dist.all_gather(parts, torch.full((rank,), float(rank)).to(device))
    yield (
        "all_gather with an empty one",
        (torch.cat(parts), torch.cat([torch.full((one,), float(one)) for one in range(size)])),
    )
    gathered: list[Any] | None = [None] * size if rank == 0 else None
    dist.gather_object("x" * (10**rank), gathered)
    yield "gather_object of other sizes", (gathered, ["x" * (10**one) for one in range(size)] if rank == 0 else None)
    x = torch.zeros(4).to(device)[::2]
    dist.all_gather([x, *(torch.zeros(2).to(device) for _ in range(size - 1))], torch.ones(2).to(device))
    yield "all_gather into a tensor with gaps", (x, torch.ones(2))
    objects: list[Any] = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    yield "all_gather_object", (objects, [{"rank": one} for one in range(size)])
    said = [f"by {rank}"]
    dist.broadcast_object_list(said, 1)
    yield "broadcast_object_list", (said, ["by 1"])
    dist.barrier()
    dist.barrier(device_ids=[torch.cuda.current_device()])
    with dist.distributed_c10d._coalescing_manager(async_ops=True) as both:
        pair = [torch.ones(2).to(device), torch.ones(3).to(device)]
        for one in pair:
            dist.all_reduce(one)
    both.wait()
    yield "coalesced", (torch.cat(pair), torch.full((5,), float(size)))
    room, mine = [torch.zeros(size).to(device), torch.zeros(2 * size).to(device)], [torch.ones(1), torch.ones(2)]
    with dist.distributed_c10d._coalescing_manager(
        group=dist.group.WORLD, device=torch.device(device), async_ops=True
    ) as both:
        for one, part in zip(room, mine, strict=True):
            dist.all_gather_into_tensor(one, part.to(device))
    both.wait()
    yield "all_gather coalesced", (torch.cat(room), torch.ones(3 * size))
    group = dist.new_group([0, 1])
    if rank < 2:
        x = torch.ones(2).to(device)
        dist.all_reduce(x, group=group)
        yield "a smaller group", (x, torch.full((2,), 2.0))
    x = torch.ones(3).to(device)
    work = dist.all_reduce(x, async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    yield "then", (doubled.wait(), torch.full((3,), 2.0 * size))
    yield "its future", (work.get_future().value()[0], torch.full((3,), float(size)))
    parts = [torch.zeros(2, 3).to(device) for _ in range(size)]
    (gathered,) = dist.all_gather(parts, torch.full((2, 3), float(rank)).to(device), async_op=True).get_future().wait()
    yield "what is gathered", (gathered, torch.arange(float(size)).expand(3, 2, size).permute(2, 1, 0))
    x = torch.ones(1 << 16).to(device)
    dist.all_reduce(x, async_op=True)
    torch.cuda.synchronize()
    yield "synchronize", (x.sum(), torch.tensor(float(size << 16)))


def _differs(pair: Pair) -> bool:
    got, expected = pair
    if not isinstance(got, torch.Tensor):
        return bool(got != expected)
    if got.dtype != expected.dtype:
        return True
    got = got.cpu()
    if got.dtype.is_complex or got.dtype.is_floating_point:
        wide = torch.complex128 if got.dtype.is_complex else torch.float64
        return not torch.allclose(got.to(wide), expected.to(wide), rtol=2e-2 if got.dtype.itemsize < 4 else 1e-6)
    return not torch.equal(got, expected)


def collect(rank: int, size: int, names: list[str]) -> list[str]:
    """Return the collectives of which something else came, with both; of the types whose names are given."""
    device, wrong, seen = "cuda", [], 0
    asked = [others(rank, size, device)]
    for name in names:
        for later in (False, True):
            for kind in (reductions, gathered, exchanged):
                asked.append(kind(rank, size, device, getattr(torch, name), later))
    for cases in asked:
        for what, pair in cases:
            seen += 1
            if _differs(pair):
                wrong.append(f"{what}: {pair[0]}, not {pair[1]}")
    return wrong or ["nothing was asked"] * (seen < 20 * len(names))
