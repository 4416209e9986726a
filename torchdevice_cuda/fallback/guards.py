"""Functions whose operators the backend has, but not for every dtype: what it refuses runs on the CPU.

The backend says so only when it is called. A refusal (see ``drivers.refusals``) is remembered by function, dtype and
device, so that the device is asked once; every other error goes on unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..drivers.refusals import NO_DOUBLE, refusal
from . import cpu
from .capabilities import refusals

#: Functions of torch, and methods of that name, whose operators have limits on MPS in some version of macOS or torch.
LIMITED = (
    "argsort bincount bucketize cummax cummin cumprod cumsum histc isin kthvalue logcumsumexp median nanmedian "
    "nanquantile quantile searchsorted sort topk unique unique_consecutive"
).split()


def _first(args: tuple, device_type: str) -> torch.Tensor | None:
    """The first tensor on the device among the arguments of a call."""
    for value in args:
        if isinstance(value, torch.Tensor) and value.device.type == device_type:
            return value
    return None


def guard(
    name: str, original: Callable[..., Any], device: torch.device, left: Callable[[str, str, str], None]
) -> Callable[..., Any]:
    """A function that goes to the CPU where the device refuses; ``left`` is told when it does."""

    def on_cpu(args: tuple, kwargs: dict[str, Any], kind: str) -> Any:
        left(name, "CPU", kind)
        out = kwargs.get("out")
        at_home = {key: cpu.home(value, device) for key, value in kwargs.items()}
        given = original(*cpu.home(args, device), **at_home)
        if out is not None:
            cpu.write_back(out, at_home["out"])
            return out
        return torch.utils._pytree.tree_map(lambda value: cpu.away(value, device), given)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if refusals:
            subject = _first(args, device.type)
            known = refusals.kind(name, subject.dtype, str(device)) if subject is not None else None
            if known is not None:
                return on_cpu(args, kwargs, known)
        try:
            return original(*args, **kwargs)
        except (RuntimeError, TypeError) as error:
            kind = refusal(error)
            subject = _first(args, device.type)
            # float64 has a setting of its own.
            if kind in (None, NO_DOUBLE) or subject is None:
                raise
        refusals.add(name, subject.dtype, str(device), kind)
        return on_cpu(args, kwargs, kind)

    return wrapper
