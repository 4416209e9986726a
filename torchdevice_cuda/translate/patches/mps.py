"""``torch.mps`` and ``torch.backends.mps``: torch's own module of the device that CUDA's tensors are really on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from ..._compat import named
from ...drivers.traits import Trait
from ..core.callers import inside
from ..core.context import Context
from ..core.registry import patch
from ..core.wrapping import resembling

_ASKING = ("is_available", "is_built")
_frame = sys._getframe


@patch("torch._C._has_mps", traits=Trait.TRANSLATED | Trait.NATIVE)
def built(context: Context) -> None:
    """A compiled device answers as the Apple GPU in a torch that was built without one; torch keeps what it finds."""
    for value in (getattr(torch.backends.mps, name) for name in _ASKING):
        forget: Callable[[], None] = getattr(value, "cache_clear", lambda: None)
        forget()
        context.editor.on_undo(forget)
    context.editor.set(torch._C, "_has_mps", True)


@patch("torch.backends.mps.is_available", "torch.backends.mps.is_built", traits=Trait.DISGUISED)
def availability(context: Context) -> None:
    """Libraries that find an Apple GPU choose it before CUDA, and then do without CUDA's features: they find CUDA."""
    for name in _ASKING:
        original: Callable[[], bool] = getattr(torch.backends.mps, name)

        def answer(_original: Callable[[], bool] = original) -> bool:
            return inside[_frame(1).f_globals.get("__name__")] and _original()

        context.editor.set(torch.backends.mps, name, resembling(answer, original))


class _CurrentDevice:
    """``with torch.mps.device(...)``: there is one device, and it is the current one."""

    def __init__(self, device: Any = None) -> None:
        self.idx = 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        pass


@patch("torch.mps.device", "torch.mps._initialized", traits=Trait.TRANSLATED, without=Trait.HOST_MEMORY)
def device_module(context: Context) -> None:
    """torch's own code (storages, checkpointing) enters ``torch.<type>.device`` of a tensor; torch.mps has none."""
    for name, value in (("device", _CurrentDevice), ("_initialized", True)):
        if named(f"torch.mps.{name}") is None:
            context.editor.set(torch.mps, name, value)
