"""Bits of sums, scans, softmax and losses: a digest of each result, by operator, type, shape and dimension."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

RECORD = "bits-h200.json"
EXPECTED = Path(__file__).with_name("expected") / "bits.toml"
SHAPES = (
    *((7,), (64,), (1000,), (3000,), (4096,), (7, 64), (64, 7), (64, 64), (1000, 64), (64, 1000), (4096, 16)),
    *((16, 4096), (3, 100000), (100000, 3), (8, 3, 1000), (1000, 3, 8), (256, 1024), (512, 33), (33, 2048)),
)
#: Rows that begin between aligned addresses, and lengths with remainders of every loop.
ODD_SHAPES = (
    *((1001,), (130001,), (100, 1001), (5, 130), (3, 50001), (20, 999), (700, 150), (300, 257), (2000, 129)),
    *((1000, 1000), (40, 6, 50), (9, 1000, 6)),
)
NARROW_SHAPES = ((3000,), (3841,), (8000,), (2, 3000), (3000, 2), (40, 500), (500, 40), (5000, 16), (4, 300, 3))
NARROW = ("float16", "bfloat16")
ALONG = (
    "sum",
    "mean",
    "prod",
    "var",
    "norm",
    "logsumexp",
    "softmax",
    "log_softmax",
    "cumsum",
    "cumprod",
    "logcumsumexp",
)
WHOLE = ("sum", "mean", "norm")
REDUCTIONS = (*WHOLE, "prod", "var")
MATRIX: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "cross_entropy": lambda x: functional.cross_entropy(x, torch.arange(len(x), device=x.device) % x.shape[1]),
    "layer_norm": lambda x: functional.layer_norm(x, x.shape[1:]),
    "mse_loss": lambda x: functional.mse_loss(x, x.flip(0)),
}


def draw(shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    """Draw numbers that are the same on every machine: whole ones, times a power of two."""
    is_wide = dtype == "float32"
    generator = torch.Generator().manual_seed(len(shape) * 1000 + shape[0] if is_wide else 7)
    low, high, scale = (-(1 << 24), 1 << 24, 2.0**-22) if is_wide else (1, 1 << 10, 2.0**-9)
    return (torch.randint(low, high, shape, generator=generator).double() * scale).to(getattr(torch, dtype)).cuda()


def compute(name: str, x: torch.Tensor, dim: str) -> torch.Tensor:
    """Call an operator. Factors are near to one, so that products neither vanish nor overflow."""
    if name in MATRIX:
        return MATRIX[name](x)
    if name in ("prod", "cumprod"):
        x = 1 + x / 4096 if x.dtype == torch.float32 else x / 32 + 0.97
    call: Callable[..., torch.Tensor] = getattr(torch, name)
    return call(x) if dim == "all" else call(x, dim=int(dim))


def find_digest(case: str) -> str:
    name, dtype, shape, dim = case.split()
    found = compute(name, draw(tuple(map(int, shape.split("x"))), dtype), dim).contiguous().cpu()
    return hashlib.sha256(found.reshape(-1).view(torch.uint8).numpy().tobytes()).hexdigest()[:16]


def list_dims(shape: tuple[int, ...]) -> Iterator[int]:
    yield from sorted({0, len(shape) - 1, *([1] if len(shape) > 2 else [])})


def list_names() -> Iterator[tuple[str, str, tuple[int, ...], Any]]:
    for shape in SHAPES:
        yield from ((name, "float32", shape, dim) for name in ALONG for dim in list_dims(shape))
        yield from ((name, "float32", shape, "all") for name in WHOLE)
        if len(shape) == 2:
            yield from ((name, "float32", shape, "all") for name in MATRIX)
    for shape in ODD_SHAPES:
        yield from ((name, "float32", shape, dim) for name in REDUCTIONS for dim in list_dims(shape))
        yield from ((name, "float32", shape, "all") for name in WHOLE)
    for dtype in NARROW:
        for shape in NARROW_SHAPES:
            names = (name for name in ALONG if name != "norm")
            yield from ((name, dtype, shape, dim) for name in names for dim in list_dims(shape))


def list_cases() -> dict[str, Callable[[], str]]:
    names = [f"{name} {dtype} {'x'.join(map(str, shape))} {dim}" for name, dtype, shape, dim in list_names()]
    return {name: partial(find_digest, name) for name in names}
