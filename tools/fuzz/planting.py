"""Faults that a fuzzer has to find: torch's functions, made wrong for tensors of the device."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch


class _Wrong(torch.autograd.Function):
    """Halves what it should pass on."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return grad / 2


def _change_value(made: torch.Tensor) -> torch.Tensor:
    return (
        torch.where(torch.ones_like(made, dtype=torch.bool).cumsum(-1) == 1, 77, made).to(made.dtype)
        if made.dim()
        else made
    )


def _change_stride(made: torch.Tensor) -> torch.Tensor:
    return made.mT.contiguous().mT if made.dim() >= 2 else made


def _change_compiled(made: torch.Tensor) -> torch.Tensor:
    return _change_value(made) if torch.compiler.is_compiling() else made


def _crash(made: torch.Tensor) -> torch.Tensor:
    os.abort()


#: What is done to the results of which functions.
PLANTS: dict[str, tuple[tuple[str, ...], Callable[[torch.Tensor], torch.Tensor]]] = {
    "value": (("cat", "stack", "flip", "where"), _change_value),
    "dtype": (("cat", "stack", "flip", "where"), lambda made: made.double() if made.dtype is torch.float32 else made),
    "stride": (("cat", "stack", "flip", "where"), _change_stride),
    "gradient": (("add", "sub", "mul", "cat"), lambda made: _Wrong.apply(made) if made.requires_grad else made),
    "alias": (("squeeze", "unsqueeze", "transpose", "narrow", "select", "permute"), torch.clone),
    "crash": (("cat", "stack", "flip", "where"), _crash),
    "compiled": (("cat", "stack", "flip", "where"), _change_compiled),
    "compiler": (("cat", "stack", "flip", "where"), _change_compiled),
}
#: Faults of torch itself, which are there on the CPU, too.
OF_TORCH = ("compiler",)


def plant(name: str) -> Callable[[], None]:
    """Plant a fault; what takes it out again."""
    functions, change = PLANTS[name]
    before: list[tuple[Any, str, Any]] = []
    for function in functions:
        for owner in (torch, torch.Tensor):
            original = owner.__dict__.get(function) or getattr(owner, function, None)
            if original is None or (name != "alias" and owner is torch.Tensor):
                continue
            before.append((owner, function, getattr(owner, function)))
            setattr(owner, function, _wrap(getattr(owner, function), change, name in OF_TORCH))

    def take_out() -> None:
        for owner, function, original in before:
            setattr(owner, function, original)

    return take_out


def _wrap(
    original: Callable[..., Any], change: Callable[[torch.Tensor], torch.Tensor], is_everywhere: bool
) -> Callable[..., Any]:
    is_busy = False

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        nonlocal is_busy
        made = original(*args, **kwargs)
        if is_busy or not isinstance(made, torch.Tensor) or (made.device.type == "cpu" and not is_everywhere):
            return made
        is_busy = True
        try:
            return change(made)
        finally:
            is_busy = False

    return wrapper
