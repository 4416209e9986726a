"""The disguise: what lies on the accelerator says ``cuda`` when the program asks, and the truth when torch does."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .callers import inside

if TYPE_CHECKING:
    from .context import Context

#: What the program is told.
CUDA = torch.device("cuda", 0)
_frame = sys._getframe


def disguised(context: Context, device: torch.device) -> torch.device:
    """A device as the program is to see it."""
    return CUDA if device in context.gpu else device


def masked(getter: Callable[[Any], Any], on_gpu: Callable[[Any], bool], answer: Any) -> property:
    """A property that is ``answer`` for what lies on the accelerator when the program asks, the real one otherwise."""

    def read(self: Any) -> Any:
        if on_gpu(self) and not inside[_frame(1).f_globals.get("__name__")]:
            return answer
        return getter(self)

    return property(read, doc=getattr(getter, "__doc__", None))


def as_program(function: Any) -> types.FunctionType:
    """A copy of a function of torch that is told what the program is told.

    Who asks is known by the module's name in its globals, so the copy has globals of its own with another name: a
    snapshot, since a function's globals must be a plain dictionary. Names that its module binds later are not seen.
    """
    names = {**function.__globals__, "__name__": "__program__"}
    copy = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    functools.update_wrapper(copy, function, updated=("__dict__",))
    return copy


def by_caller(original: types.FunctionType) -> Callable[..., Any]:
    """A function of torch that tells the program what the program is to see, and torch the truth."""
    shown = as_program(original)

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        told_the_truth = inside[_frame(1).f_globals.get("__name__")]
        return (original if told_the_truth else shown)(*args, **kwargs)

    return wrapper
