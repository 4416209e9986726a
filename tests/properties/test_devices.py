"""Any device argument, in every way of asking: refused as by stock torch or in CUDA's words, or it works."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import pytest
import torch
from harness import EVERYWHERE, STOCK, ChildConfig, in_child

from . import drawn, examples
from .asking import SPELLINGS, Spelled, ask

#: What torch reads as a dtype, of which MPS has no such thing.
DOUBLE = ["1.5", "3j"]


def names_cuda(spelled: Spelled) -> bool:
    """Return whether a request names an accelerator: stock torch's answer to it depends on the machine."""
    kind, value = spelled
    return kind == "int" or str(value).startswith("cuda")


def expected(spelled: Spelled) -> list[str]:
    """Return CUDA's answer, with one device, to a request that names it: the beginning of the outcome's list."""
    kind, value = spelled
    try:
        device = torch.device("cuda", value) if kind == "int" else torch.device(value)
    except Exception as error:
        return [type(error).__name__, str(error).partition("\n")[0]]
    # Torch keeps an index in a byte; below zero it is the current device.
    exists = device.index is None or ctypes.c_int8(device.index).value <= 0
    return ["made"] if exists else ["AcceleratorError", "CUDA error: invalid device ordinal"]


spellings = functools.cache(functools.partial(drawn, SPELLINGS))
_FOUND: dict[tuple[str, int], list[list[Any]]] = {}


def found(where: ChildConfig, number: int) -> list[list[Any]]:
    """Return all outcomes in a configuration, which is run once."""
    key = (str(where), number)
    if key not in _FOUND:
        _FOUND[key] = in_child(ask, where, spellings(number), seconds=300)
    return _FOUND[key]


@examples(150, 1500)
@pytest.mark.native
@pytest.mark.mps
@pytest.mark.parametrize("where", EVERYWHERE, ids=str)
def test_requests_without_cuda_are_as_in_stock_torch(where: ChildConfig, number: int) -> None:
    stock, here = found(STOCK, number), found(where, number)
    pairs = [(one, other) for one, other in zip(stock, here, strict=True) if not names_cuda(one[1])]
    if where.driver == "mps":
        pairs = [(one, other) for one, other in pairs if one[1][1] not in DOUBLE]
    assert len(pairs) > 300
    assert [(one, other) for one, other in pairs if one != other] == []


@examples(150, 1500)
@pytest.mark.native
@pytest.mark.mps
@pytest.mark.parametrize("where", EVERYWHERE, ids=str)
def test_requests_for_cuda_are_as_on_cuda(where: ChildConfig, number: int) -> None:
    rows = [row for row in found(where, number) if names_cuda(row[1])]
    assert {row[2] for row in rows} == {"made", "AcceleratorError", "RuntimeError", "ValueError"}
    wrong = [row for row in rows if row[2 : 2 + len(expected(row[1]))] != expected(row[1])]
    assert wrong == []
