"""Look behind the devices that the program sees."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

from torchdevice_cuda.report.departures import departures


def real(x: torch.Tensor) -> str:
    """Return the type of the device that really holds a tensor."""
    return torch._C.TensorBase.device.__get__(x).type


def as_code_of(function: Callable[..., Any], module: str | None) -> Callable[..., Any]:
    """Return the function as if a module of that name held it (or none at all): who asks decides what is answered."""
    return types.FunctionType(
        function.__code__, {"torch": torch} if module is None else {"torch": torch, "__name__": module}
    )


def raised(function: Callable[[], object]) -> tuple[str, str] | None:
    """Return the name and the words of the error that a call ends in, if it does."""
    try:
        function()
    except Exception as error:
        return type(error).__name__, str(error)
    return None


def left() -> list[list[Any]]:
    """List fallbacks since the last ``departures.clear()``: count, operator, backend, reason."""
    return [list(row) for row in departures.rows()]


def routes(function: Callable[[], Any]) -> tuple[Any, list[str]]:
    """Return a call's result and the backends of its fallbacks."""
    departures.clear()
    given = function()
    return given, sorted({where for _, _, where, _ in departures.rows()})
