"""Types of numbers that kernels compute with, or refuse."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (as everybody calls it)

from recorded.oracle.probing import numbers, probe, raises, ramp

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool)
HALVES = (torch.float16, torch.bfloat16)


@probe()
def booleans() -> Any:
    x = torch.tensor([True, False, True], device="cuda")
    return [
        raises(f)
        for f in (
            lambda: x - x,
            lambda: -x,
            lambda: x + x,
            lambda: x * x,
            lambda: x / x,
            lambda: ~x,
            lambda: x.sum(),
            lambda: x.prod(),
            lambda: x.mean(),
            lambda: x.max(),
            lambda: x.argmax(),
            lambda: x.sort(),
            lambda: x.cumsum(0),
            lambda: x.cummax(0),
            lambda: x.abs(),
            lambda: x.sign(),
            lambda: x << 1,
            lambda: x // x,
            lambda: x % x,
            lambda: x**2,
            lambda: x.topk(1),
            lambda: x.kthvalue(1),
            lambda: x.unique(),
            lambda: x.mode(),
            lambda: x.nonzero(),
            lambda: x.bincount(),
            lambda: x.histc(),
            lambda: x.flip(0),
            lambda: x.logical_xor(x),
            lambda: x.any(),
            lambda: x.clamp(0, 1),
            lambda: x.median(),
        )
    ]


@probe()
def halves_where_the_processor_differs() -> Any:
    out = []
    for dtype in HALVES:
        x = ramp(4, 4, dtype=dtype)
        out += [
            raises(f)[0]
            for f in (
                lambda x=x: torch.linalg.inv(x),
                lambda x=x: torch.linalg.svd(x),
                lambda x=x: torch.fft.fft(x),
                lambda x=x: x.histc(),
                lambda x=x: torch.linalg.det(x),
                lambda x=x: torch.cdist(x, x),
                lambda x=x: F.grid_sample(x[None, None], x[:, :, None].expand(4, 4, 2)[None]),
                lambda x=x: torch.quantile(x, 0.5),
                lambda x=x: torch.erfinv(x),
                lambda x=x: torch.polygamma(1, x),
                lambda x=x: torch.igamma(x, x),
                lambda x=x: torch.special.zeta(x, x),
                lambda x=x: torch.lgamma(x),
                lambda x=x: torch.trace(x),
                lambda x=x: torch.logcumsumexp(x, 0),
                lambda x=x: F.ctc_loss(x[:, None], torch.ones(1, 1, dtype=torch.long), (4,), (1,)),
                lambda x=x: x.geqrf(),
                lambda x=x: torch.linalg.eigh(x),
                lambda x=x: torch.nn.functional.max_unpool2d(
                    x[None, None], torch.zeros(1, 1, 4, 4, dtype=torch.long, device="cuda"), 1
                ),
                lambda x=x: torch.renorm(x, 2, 0, 1.0),
                lambda x=x: torch.cumprod(x, 0),
                lambda x=x: torch.kthvalue(x, 1),
                lambda x=x: x.unique(),
            )
        ]
    return out


@probe()
def words_of_halves() -> Any:
    x = ramp(4, 4, dtype=torch.float16)
    return [
        raises(f)
        for f in (
            lambda: torch.linalg.inv(x),
            lambda: torch.linalg.svd(x),
            lambda: torch.linalg.det(x),
            lambda: torch.linalg.cholesky(x),
            lambda: torch.linalg.eigh(x),
            lambda: torch.linalg.qr(x),
            lambda: torch.linalg.solve(x, x),
            lambda: x.geqrf(),
            lambda: torch.histc(x),
            lambda: torch.quantile(x, 0.5),
        )
    ]


@probe()
def complex_numbers() -> Any:
    x = torch.complex(ramp(3), ramp(3).flip(0))
    return [
        raises(f)
        for f in (
            lambda: x.abs(),
            lambda: x < x,
            lambda: x.max(),
            lambda: x.sort(),
            lambda: x.floor(),
            lambda: x.angle(),
            lambda: x.conj().is_conj(),
            lambda: x.real,
            lambda: x.clamp(0),
            lambda: F.relu(x),
            lambda: x.sign(),
            lambda: x.sgn(),
            lambda: x // x,
            lambda: x % x,
            lambda: torch.atan2(x, x),
            lambda: x.cumsum(0),
            lambda: torch.argmax(x),
            lambda: x.to(torch.float32),
            lambda: x.int(),
            lambda: F.softmax(x, 0),
            lambda: x.exp(),
            lambda: x.topk(1),
            lambda: x.unique(),
            lambda: torch.complex(ramp(2), ramp(2).double()),
            lambda: torch.polar(ramp(2), ramp(2)),
            lambda: torch.view_as_real(x).shape,
            lambda: x.half(),
            lambda: torch.lerp(x, x, 0.3),
        )
    ]


@probe()
def float8_arithmetic() -> Any:
    x = torch.tensor([1.0, 2.5, 300.0, 1e9, float("nan")], device="cuda")
    low = x.to(torch.float8_e4m3fn)
    return [
        numbers(low),
        numbers(x.to(torch.float8_e5m2)),
        raises(lambda: low + low),
        raises(lambda: low.sum()),
        raises(lambda: low @ low),
        raises(lambda: low == low),
        raises(lambda: low.abs()),
        raises(lambda: torch.cat([low, low]).shape),
        raises(lambda: low.clone().dtype),
        raises(lambda: low[1:3].float()),
        raises(lambda: low.max()),
        raises(lambda: torch.where(x > 0, low, low).dtype),
        raises(lambda: low.fill_(1).float()),
    ]


@probe()
def unsigned_types_wider_than_a_byte() -> Any:
    x = torch.tensor([1, 2, 65535], dtype=torch.uint16, device="cuda")
    return [
        x,
        raises(lambda: x + x),
        raises(lambda: x * 2),
        raises(lambda: x.sum()),
        raises(lambda: x == x),
        raises(lambda: x < x),
        raises(lambda: x.sort()),
        raises(lambda: x.to(torch.int32)),
        raises(lambda: x.max()),
        raises(lambda: torch.cat([x, x])),
        raises(lambda: x[x.to(torch.int64) > 1]),
        raises(lambda: x >> 1),
        raises(lambda: x & x),
        raises(lambda: x // 2),
        raises(lambda: torch.zeros(2, dtype=torch.uint64, device="cuda")),
        raises(lambda: -x),
    ]
