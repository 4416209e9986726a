"""Numbers converted to other types, and integers at the edges."""

from __future__ import annotations

from typing import Any

import torch

from recorded.oracle.probing import numbers, probe, raises

INF, NAN = float("inf"), float("nan")
EDGES = (0.0, -0.0, 1.5, -1.5, 2.5, 300.7, -300.7, 3e9, -3e9, 1e19, -1e19, 1e30, INF, -INF, NAN)


def cuda(*values: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.tensor(values, device="cuda", dtype=dtype)


@probe()
def floats_to_integers() -> Any:
    x = cuda(*EDGES)
    return [[str(d), numbers(x.to(d))] for d in (torch.int32, torch.int64, torch.bool)]


@probe()
def floats_to_small_integers() -> Any:
    x = cuda(0.0, 1.5, -1.5, 100.9, -100.9, 127.0, -128.0)
    return [[str(d), numbers(x.to(d))] for d in (torch.int8, torch.int16)]


@probe()
def floats_to_bytes_out_of_range() -> Any:
    x = cuda(*EDGES)
    return [[str(d), numbers(x.to(d))] for d in (torch.uint8, torch.int8, torch.int16)]


@probe()
def doubles_and_halves_to_integers() -> Any:
    return [
        numbers(cuda(*EDGES, dtype=torch.float64).to(torch.int32)),
        numbers(cuda(*EDGES, dtype=torch.float64).to(torch.int64)),
        numbers(cuda(*EDGES).half().to(torch.int32)),
        numbers(cuda(*EDGES).bfloat16().to(torch.int64)),
        numbers(cuda(*EDGES).half().to(torch.uint8)),
    ]


@probe()
def narrowing_integers() -> Any:
    x = cuda(300, -300, 1 << 40, -(1 << 40), 65535)
    return [
        numbers(x.to(d))
        for d in (
            torch.uint8,
            torch.int8,
            torch.int16,
            torch.int32,
            torch.float16,
            torch.bfloat16,
            torch.float32,
            torch.bool,
        )
    ]


@probe()
def floats_to_halves() -> Any:
    x = cuda(1e-8, 6e-8, 6.1e-5, 65504.0, 65519.9, 65520.0, 1e38, 3.4e38, 0.1, 1.0009765625, NAN, -INF)
    return [
        numbers(x.half()),
        numbers(x.bfloat16()),
        numbers(x.double().half()),
        numbers(x.to(torch.float8_e4m3fn)),
        numbers(x.to(torch.float8_e5m2)),
    ]


@probe()
def integer_division() -> Any:
    a, b = cuda(7, -7, 7, -7), cuda(2, 2, -2, -2)
    return [
        a // b,
        a % b,
        torch.div(a, b, rounding_mode="trunc"),
        torch.fmod(a, b),
        a / b,
        torch.div(a, b, rounding_mode="floor"),
        a.float() // b,
        a.float() % b,
        torch.remainder(a, -3),
        a // 2.0,
        raises(lambda: torch.div(a, b, rounding_mode="bogus")),
    ]


@probe()
def integer_division_by_zero() -> Any:
    a = cuda(7, -7, 0)
    z = torch.zeros(3, dtype=torch.int64, device="cuda")
    return [
        raises(lambda: a // z)[0],
        raises(lambda: a % z)[0],
        raises(lambda: torch.div(a, z, rounding_mode="trunc"))[0],
        raises(lambda: torch.fmod(a, z))[0],
        a / z,
    ]


@probe()
def integer_overflow() -> Any:
    m = cuda((1 << 63) - 1, -(1 << 63))
    return [
        m + 1,
        m * 2,
        -m,
        m.abs(),
        cuda(127, -128, dtype=torch.int8) + 1,
        cuda(255, dtype=torch.uint8) + 1,
        -cuda(1, dtype=torch.uint8),
        cuda(3, dtype=torch.int8) ** 6,
        cuda(2) ** 63,
        cuda(2) ** 64,
        m.sum(),
        cuda(127, 127, dtype=torch.int8).sum(),
        cuda(200, 200, dtype=torch.uint8).prod(),
        cuda(100, 100, dtype=torch.int8).cumsum(0),
    ]


@probe()
def integer_powers() -> Any:
    return [
        raises(lambda: cuda(2, -1, 1, 0) ** -1),
        raises(lambda: cuda(2, 3) ** cuda(-1, 2)),
        cuda(0) ** 0,
        cuda(-2) ** 3,
        raises(lambda: cuda(2).pow_(-1)),
        cuda(2) ** -1.0,
        2 ** cuda(-1, 3),
        cuda(-1) ** cuda(-1),
        cuda(1) ** cuda(-5),
        (-2.0) ** cuda(0.5),
        cuda(True, False) ** 2,
        torch.float_power(cuda(2), -1),
    ]


@probe()
def shifts() -> Any:
    return [
        cuda(1, -1, 5) << 2,
        cuda(1, -1, 5) >> 1,
        cuda(1, -1) << 64,
        cuda(1, -8) >> 64,
        cuda(1, -8) << -1,
        cuda(1, -8) >> -1,
        cuda(1, -8, dtype=torch.int32) << 33,
        cuda(200, dtype=torch.uint8) << 1,
        cuda(200, dtype=torch.uint8) >> 9,
        raises(lambda: cuda(1.0) << 1),
        raises(lambda: 1 << cuda(3)),
        cuda(-5, dtype=torch.int8) >> 1,
    ]
