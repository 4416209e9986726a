"""Indexing, gathering, sorting: what comes of ties, of duplicates and of odd indices."""

from __future__ import annotations

from typing import Any

import torch

from recorded.oracle.probing import numbers, probe, raises, ramp


@probe()
def forms() -> Any:
    x = torch.arange(24, device="cuda").reshape(2, 3, 4)
    i = torch.tensor([1, 0], device="cuda")
    return [
        x[i],
        x[:, i],
        x[..., i],
        x[i, i],
        x[i, :, i],
        x[None, 0, [1, 2]],
        x[x > 20],
        x[:, torch.tensor([True, False, True], device="cuda")],
        x[0, [0, 1], [1, 2]],
        x[torch.tensor([], dtype=torch.long, device="cuda")].shape,
        x[i.cpu()],
        x[(i > 0).cpu()],
        x[i.int()],
        x[i.to(torch.uint8).bool()],
    ]


@probe()
def refusals() -> Any:
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    return [
        raises(lambda: x[torch.tensor([0.5], device="cuda")]),
        raises(lambda: x[torch.ones(3, dtype=torch.bool, device="cuda")]),
        raises(lambda: x[torch.tensor([0, 1], device="cuda"), torch.tensor([0, 1, 2], device="cuda")]),
        raises(lambda: x[0, 0, 0]),
        raises(lambda: x["a"]),
        raises(lambda: x[5]),
        raises(lambda: x[:, 5]),
        raises(lambda: x[::-1]),
        raises(lambda: x[1.5]),
        raises(lambda: x.cpu()[torch.tensor([0], device="cuda")]),
        raises(lambda: x[torch.tensor([1], dtype=torch.int16, device="cuda")]),
        raises(lambda: x.index_select(0, torch.tensor([[0]], device="cuda"))),
        raises(lambda: x.index_select(0, torch.tensor([0.5], device="cuda"))),
        raises(lambda: x.gather(0, torch.tensor([0], device="cuda"))),
        raises(lambda: x.gather(0, torch.tensor([[0.0]], device="cuda"))),
        raises(
            lambda: x.scatter(
                0, torch.tensor([[0]], device="cuda"), torch.ones(1, 1, device="cuda", dtype=torch.float64)
            )
        ),
        raises(lambda: x.take(torch.tensor([0.5], device="cuda"))),
    ]


@probe()
def assignments() -> Any:
    x = torch.zeros(2, 3, device="cuda")
    x[0] = 1
    x[:, 1] = torch.tensor([5.0, 6.0])
    x[x > 5] = -1.0
    x[torch.tensor([1], device="cuda")] = torch.tensor([7.0, 8.0, 9.0], device="cuda")
    return [
        x,
        raises(lambda: x.__setitem__(0, torch.ones(4, device="cuda"))),
        raises(lambda: x.__setitem__(0, torch.ones(3))),
        raises(lambda: x.__setitem__(torch.tensor([0], device="cuda"), torch.ones(3))),
        raises(lambda: x.__setitem__(x > 0, torch.ones(1))),
        raises(lambda: x.__setitem__(x > 0, torch.ones(5, device="cuda"))),
        raises(lambda: x.__setitem__((torch.tensor([0]), torch.tensor([0])), 1.0)),
        x,
    ]


@probe()
def index_put_of_duplicates() -> Any:
    x = torch.zeros(4, device="cuda")
    i = torch.tensor([1, 1, 3], device="cuda")
    x.index_put_((i,), torch.tensor([1.0, 2.0, 4.0], device="cuda"), accumulate=True)
    return [
        x,
        raises(lambda: x.index_put_((i,), torch.ones(3, device="cuda", dtype=torch.float64))),
        raises(lambda: x.index_put_((i,), torch.ones(2, device="cuda"))),
        raises(lambda: x.index_put_((i, i), torch.ones(3, device="cuda"))),
    ]


@probe()
def ties() -> Any:
    x = torch.tensor([3.0, 1.0, 3.0, 1.0, 2.0, 3.0], device="cuda")
    return [
        x.argmax(),
        x.argmin(),
        x.max(0),
        x.min(0),
        x.sort(),
        x.sort(descending=True),
        x.sort(stable=True, descending=True),
        x.argsort(),
        x.topk(3),
        x.topk(4, largest=False),
        x.kthvalue(2),
        x.median(0),
        x.mode(),
        x.cummax(0),
        x.cummin(0),
        x.nanmedian(0),
        x.unique(return_inverse=True, return_counts=True),
        torch.unique_consecutive(x, return_counts=True),
    ]


@probe()
def not_numbers_in_order() -> Any:
    n = float("nan")
    x = torch.tensor([1.0, n, 3.0, n, -1.0], device="cuda")
    return [
        x.argmax(),
        x.argmin(),
        x.max(),
        x.min(),
        x.sort(),
        x.sort(descending=True),
        x.topk(2),
        x.topk(2, largest=False),
        x.median(),
        x.nanmedian(),
        x.unique().shape,
        x.cummax(0),
        x.kthvalue(5),
        x.amax(),
        x.aminmax(),
        x.clamp(0, 2),
        torch.maximum(x, x.flip(0)),
        torch.fmax(x, x.flip(0)),
        x.nan_to_num(),
        x.mode().values.shape,
    ]


@probe()
def empty_tensors() -> Any:
    x = torch.empty(0, device="cuda")
    y = torch.empty(0, 3, device="cuda")
    return [
        x.sum(),
        x.prod(),
        raises(lambda: x.max()),
        raises(lambda: x.argmax()),
        x.mean(),
        raises(lambda: x.median()),
        x.sort().values.shape,
        raises(lambda: y.max(0)),
        y.sum(0),
        raises(lambda: x.topk(1)),
        x.unique().shape,
        x.nonzero().shape,
        x.cumsum(0).shape,
        torch.cat([x, torch.ones(1, device="cuda")]),
        y.t() @ y,
        x.any(),
        x.all(),
        x.std(),
        raises(lambda: x.aminmax()),
        raises(lambda: x.min()),
        x.norm(),
        raises(lambda: x.mode()),
        raises(lambda: x.kthvalue(1)),
        x.logsumexp(0),
        raises(lambda: torch.nn.functional.cross_entropy(y, torch.empty(0, dtype=torch.long, device="cuda"))),
    ]


@probe()
def scatters() -> Any:
    x = torch.zeros(3, device="cuda")
    i, s = torch.tensor([0, 0, 2], device="cuda"), torch.tensor([2.0, 3.0, 4.0], device="cuda")
    return [
        x.scatter_add(0, i, s),
        *[x.scatter_reduce(0, i, s, reduce=r) for r in ("sum", "prod", "mean", "amax", "amin")],
        x.scatter_reduce(0, i, s, reduce="mean", include_self=False),
        raises(lambda: x.scatter_reduce(0, i, s, reduce="bogus")),
        x.index_add(0, i, s, alpha=2),
        x.index_reduce(0, i, s, "prod", include_self=False),
        raises(lambda: x.scatter(0, i, s, reduce="add")),
        x.index_copy(0, torch.tensor([2, 0, 1], device="cuda"), s),
        x.put(i[:2] + 1, s[:2]).shape,
        x.masked_scatter(torch.tensor([True, False, True], device="cuda"), s),
    ]


@probe()
def searching() -> Any:
    e = torch.tensor([1.0, 3.0, 5.0], device="cuda")
    v = torch.tensor([0.0, 1.0, 3.5, 9.0, float("nan")], device="cuda")
    return [
        torch.searchsorted(e, v),
        torch.searchsorted(e, v, right=True),
        torch.bucketize(v, e, out_int32=True),
        torch.isin(v, e),
        torch.histc(v[:4], 4, 0, 8),
        raises(lambda: torch.histc(v, 4)),
        torch.bincount(torch.tensor([0, 2, 2], device="cuda"), minlength=5),
        torch.bincount(torch.tensor([0, 2, 2], device="cuda"), weights=e),
        raises(lambda: torch.histogram(v[:4], 3)),
        torch.nonzero(v > 1, as_tuple=True),
        torch.count_nonzero(v),
        torch.argwhere(v == 1),
        raises(lambda: torch.bincount(e)),
        raises(lambda: torch.nonzero_static(v, size=6)),
    ]


@probe()
def shapes_and_strides() -> Any:
    x = ramp(2, 3, 4, 5)
    c = x.contiguous(memory_format=torch.channels_last)
    return [
        list(f.stride())
        for f in (
            x.sum(1),
            c.sum(1),
            c + 1,
            c + x,
            x + c,
            c.permute(0, 2, 3, 1),
            torch.cat([c, c]),
            torch.empty_like(c),
            torch.zeros_like(x.transpose(1, 2)),
            x[:, :, 0] + x[:, :, 1],
            x.transpose(1, 3).clone(),
            x.expand(2, 3, 4, 5).clone(),
            c.to(torch.float64),
            c.relu(),
            c.softmax(1),
            x.transpose(0, 1).softmax(1),
            c.mean((2, 3), keepdim=True),
            torch.stack([c, c]),
            c.cumsum(1),
            torch.where(c > 0, c, x),
            c.flip(1),
            x.transpose(0, 1)[:, ::2] * 2,
            c.sort(1).values,
            c.argmax(1),
            c[:, [0, 1]],
        )
    ]


@probe()
def repeats() -> Any:
    x = torch.tensor([1, 2], device="cuda")
    return [
        x.repeat_interleave(3),
        x.repeat_interleave(torch.tensor([2, 0], device="cuda")),
        raises(lambda: x.repeat_interleave(torch.tensor([2, 0]))),
        raises(lambda: x.repeat_interleave(torch.tensor([1], device="cuda"))),
        raises(lambda: x.repeat_interleave(torch.tensor([1.0, 1.0], device="cuda"))),
        torch.combinations(x),
        torch.cartesian_prod(x, x),
        torch.tril_indices(2, 2, device="cuda"),
        torch.meshgrid(x, x, indexing="ij"),
        torch.vander(x),
        x.diff(),
        torch.trapezoid(x.float()),
        torch.block_diag(x, x),
    ]


@probe()
def masked() -> Any:
    x = torch.arange(4.0, device="cuda")
    m = torch.tensor([True, False, True, False], device="cuda")
    return [
        x.masked_select(m),
        x.masked_fill(m, 9),
        raises(lambda: x.masked_fill(m.long(), 9)),
        raises(lambda: x.masked_select(m.float())),
        raises(lambda: x.masked_fill(m, torch.ones(2, device="cuda"))),
        torch.where(m),
        torch.where(m, 1, 2),
        torch.where(m, x, 0.5),
        raises(lambda: torch.where(m.long(), x, x)),
        numbers(torch.where(m, x.half(), x.double())),
    ]
