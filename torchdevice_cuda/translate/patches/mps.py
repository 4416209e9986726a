"""``torch.mps`` and ``torch.backends.mps``: torch's own module of the device that CUDA tensors are really on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from ..._compat import named
from ...drivers.traits import NONE, Trait
from ..core.callers import inside
from ..core.context import Context
from ..core.registry import patch
from ..core.wrapping import copy_metadata

_ASKING = ("is_available", "is_built")
_frame = sys._getframe


@patch("torch._C._has_mps", traits=Trait.TRANSLATED | Trait.NATIVE)
def built(context: Context) -> None:
    """A compiled device acts as the Apple GPU in a torch that was built without one; torch caches what it finds."""
    for value in (getattr(torch.backends.mps, name) for name in _ASKING):
        forget: Callable[[], None] = getattr(value, "cache_clear", lambda: None)
        forget()
        context.editor.on_undo(forget)
    context.editor.set(torch._C, "_has_mps", True)


@patch("torch.backends.mps.is_available", "torch.backends.mps.is_built", traits=Trait.DISGUISED)
def availability(context: Context) -> None:
    """Libraries that find an Apple GPU prefer it to CUDA, and then do without CUDA's features: they must find CUDA."""
    for name in _ASKING:
        original: Callable[[], bool] = getattr(torch.backends.mps, name)

        def answer(_original: Callable[[], bool] = original) -> bool:
            return inside[_frame(1).f_globals.get("__name__")] and _original()

        context.editor.set(torch.backends.mps, name, copy_metadata(answer, original))


#: CUDA's counterparts of torch.mps functions, for programs that call them if the accelerator is CUDA.
_AS_CUDA: dict[str, Callable[..., Any]] = {
    "synchronize": lambda: torch.cuda.synchronize(),
    "empty_cache": lambda: torch.cuda.empty_cache(),
    "get_rng_state": lambda device="mps": torch.cuda.get_rng_state(),
    "set_rng_state": lambda new_state, device="mps": torch.cuda.set_rng_state(new_state),
    "seed": lambda: torch.cuda.seed(),
    "set_per_process_memory_fraction": lambda fraction: torch.cuda.set_per_process_memory_fraction(fraction),
}


@patch(*(f"torch.mps.{name}" for name in (*_AS_CUDA, "manual_seed", "Event")), traits=NONE, without=Trait.PARTIAL)
def functions(context: Context) -> None:
    """A program written for an Apple GPU calls torch.mps, which fails without one: CUDA's functions are used.

    ``torch.backends.mps`` reports that there is no Apple GPU, as on a machine with CUDA. Queries of its memory raise
    an error, as in stock torch: libraries call them to learn whether there is one.
    """
    for name, function in _AS_CUDA.items():
        context.editor.set(torch.mps, name, copy_metadata(function, getattr(torch.mps, name)))
    original: Callable[[int], None] = torch.mps.manual_seed

    def manual_seed(seed: int) -> None:
        if not inside[_frame(1).f_globals.get("__name__")]:  # torch.manual_seed has seeded CUDA itself
            torch.cuda.manual_seed(seed)

    context.editor.set(torch.mps, "manual_seed", copy_metadata(manual_seed, original))
    context.editor.set(torch.mps, "Event", torch.cuda.Event)


class _CurrentDevice:
    """``with torch.mps.device(...)``: the only device, which is always current."""

    def __init__(self, device: Any = None) -> None:
        self.idx = 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        pass


@patch("torch.mps.device", "torch.mps._initialized", traits=Trait.TRANSLATED, without=Trait.HOST_MEMORY)
def device_module(context: Context) -> None:
    """torch's own code (storages, checkpointing) enters ``torch.<type>.device`` of a tensor; torch.mps lacks it."""
    for name, value in (("device", _CurrentDevice), ("_initialized", True)):
        if named(f"torch.mps.{name}") is None:
            context.editor.set(torch.mps, name, value)
