"""Products of eight-bit floats with scales: what is taken and computed, and refusals word for word."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn import functional

RECORD = "scaled-products-h200.json"
LISTED_ON_DEVICE = True
E4, E5 = torch.float8_e4m3fn, torch.float8_e5m2
HALVES = (torch.bfloat16, torch.float16)
#: The words are cut off there.
SAID = 850
#: What a result may be off, of the largest: sums are added in another order, and rounded to the type.
OFF = {"torch.float32": 1e-5, "torch.float16": 1e-3, "torch.bfloat16": 8e-3, "torch.float8_e4m3fn": 0.0}


def matrix(rows: int, columns: int, scale: float = 1.0) -> torch.Tensor:
    """Whole numbers from -11 to 11, over and over."""
    return ((torch.arange(rows * columns, device="cuda") % 23 - 11).float().reshape(rows, columns) * scale).to(E4)


def even(first: float, last: float, *shape: int) -> torch.Tensor:
    """Numbers at even steps."""
    count = torch.Size(shape).numel()
    return torch.linspace(first, last, count, device="cuda").reshape(shape)


def outcome(call: Callable[[], torch.Tensor]) -> list[Any]:
    """Return a call's result or its error."""
    try:
        made = call()
    except Exception as error:
        return [type(error).__name__, str(error)[:SAID]]
    first = [round(float(value), 5) for value in made.float().flatten()[:6]]
    return [str(made.dtype), list(made.shape), list(made.stride()), first]


def calls() -> dict[str, Callable[[], torch.Tensor]]:
    """Return the calls by their names in the record."""
    mm: Any = torch._scaled_mm
    a, b, one = matrix(32, 64), matrix(48, 64, 0.5).t(), torch.ones((), device="cuda")
    rows, columns = torch.ones(32, 1, device="cuda"), torch.ones(1, 48, device="cuda")
    made: dict[str, Callable[[], torch.Tensor]] = {}
    added = torch.arange(48.0, device="cuda")
    for kind in (None, *HALVES, torch.float32, E4, E5):
        some = {"out_dtype": kind}
        made[f"tensor {kind}"] = lambda o=some: mm(a, b, one * 0.5, one * 2, **o)
        made[f"tensor1 {kind}"] = lambda o=some: mm(a, b, one.reshape(1) * 0.5, one.reshape(1, 1) * 2, **o)
        made[f"row {kind}"] = lambda o=some: mm(a, b, even(0.5, 1.5, 32, 1), even(1, 2, 1, 48), **o)
        made[f"res {kind}"] = lambda o=some: mm(a, b, one, one, scale_result=one * 0.001, **o)
        made[f"rowbias {kind}"] = lambda o=some: mm(a, b, rows, columns, bias=added.bfloat16(), **o)
        for other in (*HALVES, torch.float32):
            made[f"bias {kind} {other}"] = lambda o=some, t=other: mm(a, b, one, one, bias=added.to(t), **o)
    half = {"out_dtype": torch.bfloat16}
    made |= {
        "small res": lambda: mm(a, b, one * 0.01, one, scale_result=one * 100, out_dtype=E4),
        "row stride": lambda: mm(a, b, torch.ones(32, 2, device="cuda")[:, :1], columns, **half),
        "row mixed": lambda: mm(a, b, one, columns, **half),
        "row 1d": lambda: mm(a, b, rows[:, 0], columns[0], **half),
        "row fast": lambda: mm(a, b, rows, columns, use_fast_accum=True, **half),
        "e5": lambda: mm(a.to(E5), b, one, one, **half),
        "e5b": lambda: mm(a, b.to(E5), one, one, **half),
        "e55": lambda: mm(a.to(E5), b.to(E5), one, one, **half),
        "row e5": lambda: mm(a.to(E5), b, rows, columns, **half),
        "k": lambda: mm(a[:, :24].contiguous(), b[:24], one, one),
        "n": lambda: mm(a, b[:, :40], one, one),
        "m": lambda: mm(a[:5], b, one, one, **half),
        "dims": lambda: mm(a[0], b, one, one),
        "shape": lambda: mm(a, matrix(48, 32).t(), one, one),
        "cpu": lambda: mm(a, b.cpu(), one, one),
        "f32": lambda: mm(a.float(), b.float(), one, one),
        "mix": lambda: mm(a, b.float(), one, one),
        "rm": lambda: mm(a, b.contiguous(), one, one),
        "cm": lambda: mm(a.t().contiguous().t(), b, one, one),
        "empty m": lambda: mm(a[:0], b, one, one, **half),
        "empty k": lambda: mm(a[:, :0], b[:0], one, one, **half),
        "biassize": lambda: mm(a, b, one, one, bias=added[:3].bfloat16(), **half),
        "resbad": lambda: mm(a, b, one, one, scale_result=added[:2]),
        "out": lambda: mm(a, b, one, one, out=torch.empty(32, 48, device="cuda", dtype=torch.bfloat16), **half),
        "outbad": lambda: mm(a, b, one, one, out=torch.empty(32, 48, device="cuda"), **half),
    }
    return made | of_blocks(mm)


def of_blocks(mm: Any) -> dict[str, Callable[[], torch.Tensor]]:
    """With a scale for 128 elements of a row, or a square of them."""
    a, b = matrix(256, 256), matrix(128, 256, 0.5).t()
    strips, squares = even(0.5, 1.5, 2, 256).t(), even(1, 2, 1, 2).t()
    strips_b, squares_a = even(1, 2, 2, 128), even(1, 2, 2, 2)
    made: dict[str, Callable[[], torch.Tensor]] = {}
    for kind in (torch.bfloat16, torch.float32, E4, torch.float16):
        some = {"out_dtype": kind}
        made[f"1x128 128x128 {kind}"] = lambda o=some: mm(a, b, strips, squares, **o)
        made[f"1x128 1x128 {kind}"] = lambda o=some: mm(a, b, strips, strips_b, **o)
        made[f"128 1x128 {kind}"] = lambda o=some: mm(a, b, squares_a, strips_b, **o)
        made[f"128 128 {kind}"] = lambda o=some: mm(a, b, squares_a, squares, **o)
    if hasattr(torch, "float8_e8m0fnu"):
        ones = torch.ones(256 * 8, device="cuda").to(torch.float8_e8m0fnu)
        made["mx"] = lambda: mm(a, b, ones, ones[: 128 * 8], out_dtype=torch.bfloat16)
    return made


def by_name() -> dict[str, Callable[[], torch.Tensor]]:
    """Return the calls of torch.nn.functional.scaled_mm, which names the kind of a scale."""
    kinds, scaled = functional.ScalingType, functional.scaled_mm  # type: ignore[attr-defined]
    a, b, one = matrix(32, 64), matrix(48, 64, 0.5).t(), torch.ones((), device="cuda")
    wide, long = matrix(256, 256), matrix(128, 256, 0.5).t()
    rows, two = torch.ones(32, 1, device="cuda"), torch.full((1, 48), 2.0, device="cuda")
    strips, strips_b, squares = even(0.5, 1.5, 2, 256).t(), even(1, 2, 2, 128), even(1, 2, 1, 2).t()
    table = {
        "tw": (a, b, one, kinds.TensorWise, one * 2, kinds.TensorWise),
        "rw": (a, b, rows, kinds.RowWise, two, kinds.RowWise),
        "rw48": (a, b, rows, kinds.RowWise, two.reshape(48, 1), kinds.RowWise),
        "b1": (wide, long, strips, kinds.BlockWise1x128, strips_b, kinds.BlockWise1x128),
        "b1t": (wide, long, strips, kinds.BlockWise1x128, strips_b.t(), kinds.BlockWise1x128),
        "b128": (wide, long, strips, kinds.BlockWise1x128, squares, kinds.BlockWise128x128),
        "b128t": (wide, long, strips, kinds.BlockWise1x128, squares.t(), kinds.BlockWise128x128),
        "bad": (a, b, one, kinds.TensorWise, two / 2, kinds.RowWise),
        "badshape": (a, b, torch.ones(3, device="cuda"), kinds.TensorWise, one, kinds.TensorWise),
    }
    return {
        f"v2 {name} {kind}": lambda row=row, kind=kind: scaled(*row, output_dtype=kind)
        for name, row in table.items()
        for kind in (torch.bfloat16, torch.float32, E4)
    }


def find_difference(there: list[Any], here: list[Any], case: Any) -> str | None:
    """Compare types, shapes, strides and words, and numbers nearly."""
    if len(there) == 2:
        return None if here == [there[0], there[1][:SAID]] else "other words"
    if len(there) != len(here) or there[:-1] != here[:-1]:
        return "another type, shape or stride"
    # Of the first row alone: the GPU reads scales of squares past their end where they have no room for four.
    bound = OFF[there[0]] * max(map(abs, there[-1]), default=0)
    return "other numbers" if any(abs(x - y) > bound for x, y in zip(there[-1], here[-1], strict=True)) else None


def list_cases() -> dict[str, Callable[[], list[Any]]]:
    named = by_name() if hasattr(functional, "scaled_mm") else {}
    return {name: partial(outcome, call) for name, call in (calls() | named).items()}
