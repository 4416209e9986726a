"""Any call of ``Tensor.to``: it does what stock torch's does for the same call with the CPU as the device."""

from __future__ import annotations

import functools

import pytest
from harness import EVERYWHERE, STOCK, ChildConfig, in_child

from . import drawn, examples
from .moving import CALLS, move

calls_of = functools.cache(functools.partial(drawn, CALLS))


@functools.cache
def move_on_stock(number: int) -> list[list[object]]:
    """Return what each call gives under stock torch, with the CPU as the device."""
    found: list[list[object]] = in_child(move, STOCK.when("after"), calls_of(number), "cpu", seconds=300)
    return found


@examples(250, 8000)
@pytest.mark.native
@pytest.mark.mps
@pytest.mark.parametrize("where", EVERYWHERE, ids=str)
def test_any_call_does_what_stock_torch_does(where: ChildConfig, number: int) -> None:
    calls = calls_of(number)
    stock = move_on_stock(number)
    assert sum(len(row) > 1 for row in stock) > len(stock) / 10
    for device in ("cuda", "cpu"):
        here = in_child(move, where, calls, device, seconds=300)
        wrong = [(call, one, other) for call, one, other in zip(calls, stock, here, strict=True) if one != other]
        assert wrong == []
