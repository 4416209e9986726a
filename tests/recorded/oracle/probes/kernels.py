"""Refusals of kernels and their messages."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (as everybody calls it)

from recorded.oracle.probing import every, kind, probe, raises

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool)
HALVES = (torch.float16, torch.bfloat16)


@probe()
def integer_products() -> Any:
    return [
        list(
            every(
                INTEGERS, lambda d: torch.ones(2, 2, dtype=d, device="cuda") @ torch.ones(2, 2, dtype=d, device="cuda")
            )
        ),
        raises(lambda: torch.bmm(*[torch.ones(2, 2, 2, dtype=torch.int64, device="cuda")] * 2)),
        raises(
            lambda: torch.mv(
                torch.ones(2, 2, dtype=torch.int32, device="cuda"), torch.ones(2, dtype=torch.int32, device="cuda")
            )
        ),
        raises(lambda: torch.dot(*[torch.ones(2, dtype=torch.int32, device="cuda")] * 2)),
        raises(lambda: torch.addmm(*[torch.ones(2, 2, dtype=torch.int64, device="cuda")] * 3)),
        raises(lambda: torch.baddbmm(*[torch.ones(2, 2, 2, dtype=torch.int32, device="cuda")] * 3)),
        raises(lambda: torch.einsum("ij,jk->ik", *[torch.ones(2, 2, dtype=torch.int64, device="cuda")] * 2)),
    ]


@probe()
def outer_and_kron_of_integers() -> Any:
    x = torch.arange(3, device="cuda")
    return [torch.outer(x, x), torch.kron(x, x), raises(lambda: torch.vdot(x, x)), raises(lambda: torch.inner(x, x))]


@probe()
def mixed_dtypes_of_products() -> Any:
    a, b = torch.ones(2, 2, device="cuda"), torch.ones(2, 2, device="cuda", dtype=torch.float16)
    lin = torch.nn.Linear(2, 2, device="cuda")
    return [
        raises(lambda: a @ b),
        raises(lambda: F.linear(a, b)),
        raises(lambda: lin(b)),
        raises(lambda: torch.bmm(a[None], b[None])),
        raises(lambda: torch.addmm(a, a, b)),
        raises(lambda: torch.dot(a[0], b[0])),
        raises(lambda: torch.mv(a, b[0])),
    ]


@probe()
def shapes_of_products() -> Any:
    a, b = torch.ones(2, 3, device="cuda"), torch.ones(4, 5, device="cuda")
    return [
        raises(lambda: a @ b),
        raises(lambda: torch.mm(a, b)),
        raises(lambda: torch.bmm(a, b)),
        raises(lambda: torch.addmm(a, a, b)),
        raises(lambda: torch.dot(a[0], b[0])),
        raises(lambda: torch.mm(a[0], b)),
        raises(lambda: F.linear(a, b)),
        raises(lambda: torch.baddbmm(a, a, b)),
        raises(lambda: a + b),
        raises(lambda: torch.cat([a, b])),
    ]


@probe()
def convolution_refusals() -> Any:
    x, w = torch.ones(1, 2, 4, 4, device="cuda"), torch.ones(2, 2, 3, 3, device="cuda")
    return [
        raises(lambda: F.conv2d(x, w.half())),
        raises(lambda: F.conv2d(x, w.cpu())),
        raises(lambda: F.conv2d(x.cpu(), w)),
        raises(lambda: F.conv2d(x.long(), w.long())),
        raises(lambda: F.conv2d(x, w, torch.ones(2))),
        raises(lambda: F.conv2d(x[:, :1], w)),
        raises(lambda: F.conv2d(x[0, 0, 0], w)),
        raises(lambda: F.conv2d(x, w, stride=0)),
        raises(lambda: F.conv2d(x, torch.ones(2, 2, 5, 5, device="cuda"))),
        raises(lambda: F.conv_transpose2d(x.int(), w.int())),
    ]


@probe()
def mixed_devices_by_operator() -> Any:
    x, y = torch.ones(3, 3, device="cuda"), torch.ones(3, 3)
    index = torch.tensor([0, 1])
    return [
        raises(f)
        for f in (
            lambda: x + y,
            lambda: torch.mm(x, y),
            lambda: torch.cat([x, y]),
            lambda: torch.stack([x, y]),
            lambda: torch.where(x > 0, x, y),
            lambda: torch.where(y > 0, x, x),
            lambda: x.add_(y),
            lambda: y.add_(x),
            lambda: torch.add(x, x, out=y),
            lambda: torch.addmm(y, x, x),
            lambda: torch.bmm(x[None], y[None]),
            lambda: F.linear(x, y),
            lambda: F.linear(x, x, y[0]),
            lambda: F.embedding(index, x),
            lambda: F.embedding(index.cuda(), y),
            lambda: x.index_select(0, index),
            lambda: x.gather(0, index[None]),
            lambda: x.scatter(0, index[None], 1.0),
            lambda: torch.lerp(x, y, 0.5),
            lambda: torch.maximum(x, y),
            lambda: F.cross_entropy(x, torch.tensor([0, 1, 2])),
            lambda: F.mse_loss(x, y),
            lambda: torch.dot(x[0], y[0]),
            lambda: F.batch_norm(x, y[0], y[0]),
            lambda: F.layer_norm(x, (3,), y[0]),
            lambda: x.index_add(0, index, y[:2]),
            lambda: torch.allclose(x, y),
            lambda: torch.equal(x, y),
            lambda: x.masked_fill(y > 0, 1.0),
            lambda: torch.searchsorted(x[0], y[0]),
            lambda: torch.cross(x, y, dim=0),
            lambda: x.copy_(y).device,
            lambda: torch.cdist(x, y),
            lambda: torch.linalg.solve(x, y),
            lambda: torch.isin(x, y),
            lambda: torch.bucketize(x, y[0]),
        )
    ]


@probe()
def zero_dim_tensors_of_the_processor() -> Any:
    x, one = torch.ones(2, device="cuda"), torch.tensor(2.0)
    return [
        x + one,
        one + x,
        raises(lambda: one.add_(x)),
        raises(lambda: one.add_(x[0])),
        x.add_(one),
        raises(lambda: torch.add(one, one, out=x)),
        torch.where(x > 0, one, x),
        raises(lambda: torch.cat([x, one[None]])),
        x.fill_(one),
        raises(lambda: torch.clamp(x, min=one)),
        raises(lambda: x.lerp(x, one)),
        raises(lambda: torch.addcmul(x, one, x)),
        raises(lambda: torch.addcdiv(x, x, one)),
        x.masked_fill(x > 0, one),
        x.pow(one),
        raises(lambda: torch.stack([x[0], one])),
    ]


@probe()
def integers_where_floats_are_wanted() -> Any:
    x = torch.ones(4, 4, dtype=torch.int64, device="cuda")
    return [
        raises(f)
        for f in (
            lambda: F.softmax(x, 0),
            lambda: F.layer_norm(x, (4,)),
            lambda: x.mean(),
            lambda: x.std(),
            lambda: torch.linalg.norm(x),
            lambda: F.gelu(x),
            lambda: F.dropout(x),
            lambda: torch.bernoulli(x),
            lambda: torch.multinomial(x, 1),
            lambda: F.relu(-x)[0],
            lambda: F.leaky_relu(x),
            lambda: torch.cdist(x, x),
            lambda: x.median(),
            lambda: torch.quantile(x, 0.5),
            lambda: F.group_norm(x, 2),
            lambda: torch.lerp(x, x, 0.5),
            lambda: x.normal_(),
            lambda: x.uniform_()[0, 0] < 2,
            lambda: F.interpolate(x[None], 8),
            lambda: F.avg_pool1d(x, 2),
            lambda: F.max_pool1d(x, 2),
            lambda: F.adaptive_avg_pool1d(x, 2),
            lambda: x.logsumexp(0),
            lambda: F.mse_loss(x, x),
            lambda: F.cross_entropy(x, x[0]),
            lambda: F.hardswish(x),
            lambda: F.silu(x),
            lambda: F.softplus(x),
            lambda: F.elu(x),
            lambda: torch.logit(x),
            lambda: torch.renorm(x, 2, 0, 1.0),
            lambda: x.geometric_(0.5).min() > 0,
            lambda: x.exponential_(),
            lambda: x.cauchy_(),
            lambda: F.glu(x),
            lambda: F.pixel_shuffle(x[None], 1).shape,
        )
    ]


@probe()
def sizes_out_of_range() -> Any:
    x = torch.ones(2, 3, device="cuda")
    return [
        raises(f)
        for f in (
            lambda: x.sum(5),
            lambda: x.view(7),
            lambda: x.reshape(4, 4),
            lambda: x.expand(3, 3),
            lambda: x.squeeze(4),
            lambda: x.transpose(0, 3),
            lambda: x.permute(0, 0),
            lambda: x.narrow(0, 1, 5),
            lambda: x.select(0, 7),
            lambda: x[7],
            lambda: x[:, :, 0],
            lambda: x.topk(9),
            lambda: x.kthvalue(0),
            lambda: x.unfold(0, 9, 1),
            lambda: x.repeat(2),
            lambda: x.tile(0).shape,
            lambda: x.split(0),
            lambda: x.chunk(0),
            lambda: x.diag(9),
            lambda: x.cumsum(9),
            lambda: x.flip(3),
            lambda: x.roll(1, 5),
            lambda: x.as_strided((9, 9), (9, 9)),
            lambda: x.t_().t().shape,
            lambda: torch.zeros(-1, device="cuda"),
            lambda: torch.empty(2**62, 4, device="cuda"),
            lambda: torch.arange(0, 5, 0, device="cuda"),
            lambda: torch.arange(5, 0, device="cuda"),
            lambda: torch.linspace(0, 1, -1, device="cuda"),
        )
    ]


@probe()
def inplace_overlap() -> Any:
    x = torch.zeros(4, device="cuda")
    wide = x[:1].expand(4)
    return [
        raises(lambda: wide.add_(1)),
        raises(lambda: x[1:].copy_(x[:-1])),
        raises(lambda: torch.add(x[:-1], 1, out=x[1:])),
        raises(lambda: wide.fill_(1)),
        raises(lambda: wide.zero_()),
        raises(lambda: wide.copy_(torch.ones(4))),
        raises(lambda: wide.index_fill_(0, torch.tensor([0], device="cuda"), 1.0)),
        raises(lambda: wide.masked_fill_(wide > 0, 1.0)),
        raises(lambda: wide.scatter_(0, torch.tensor([0], device="cuda"), 1.0)),
        raises(lambda: x.addcmul_(wide, wide)),
    ]


@probe()
def results_that_do_not_fit() -> Any:
    x = torch.ones(2, device="cuda")
    return [
        raises(lambda: torch.add(x, 1.5, out=torch.zeros(2, dtype=torch.int64, device="cuda"))),
        raises(lambda: torch.zeros(2, dtype=torch.int32, device="cuda").add_(1.5)),
        raises(lambda: torch.sum(x, out=torch.zeros(2, device="cuda"))),
        raises(lambda: torch.mm(x[None], x[:, None], out=torch.zeros(3, device="cuda"))),
        raises(lambda: torch.zeros(2, dtype=torch.bool, device="cuda").add_(1)),
        raises(lambda: torch.eq(x, x, out=torch.zeros(2, device="cuda"))),
        raises(lambda: torch.arange(3, out=torch.zeros(2, device="cuda"))),
        kind(lambda: torch.div(4, 2, out=x)),
        raises(lambda: torch.zeros(2, dtype=torch.int64, device="cuda").div_(2)),
    ]
