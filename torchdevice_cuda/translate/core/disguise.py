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

#: Devices reported to the program.
CUDA = torch.device("cuda", 0)
CPU = torch.device("cpu")
_frame = sys._getframe


def disguised(context: Context, device: torch.device) -> torch.device:
    """Return a device as the program is to see it, of something whose memory is not known."""
    if device not in context.gpu:
        return device
    return CPU if context.translator.believes_in_cpu() else CUDA


def masked(
    getter: Callable[[Any], Any],
    on_gpu: Callable[[Any], bool],
    answer: Any,
    believed_cpu: Callable[[Any], bool],
    otherwise: Any,
) -> property:
    """Return a property of accelerator objects: ``answer`` for the program, the real value for torch.

    ``otherwise`` is the answer for what the program believes to be on the CPU.
    """

    def read(self: Any) -> Any:
        if on_gpu(self) and not inside[_frame(1).f_globals.get("__name__")]:
            return otherwise if believed_cpu(self) else answer
        return getter(self)

    return property(read, doc=getattr(getter, "__doc__", None))


def as_program(function: Any) -> types.FunctionType:
    """Return a copy of a function of torch that is told what the program is told.

    Who asks is known by the module's name in its globals, so the copy has globals of its own with another name: a
    snapshot, since a function's globals must be a plain dictionary. Names that its module binds later are not seen.
    """
    names = {**function.__globals__, "__name__": "__program__"}
    copy = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    functools.update_wrapper(copy, function, updated=("__dict__",))
    return copy


def by_caller(original: types.FunctionType) -> Callable[..., Any]:
    """Return a function of torch that tells the program what the program is to see, and torch the truth."""
    shown = as_program(original)

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        told_the_truth = inside[_frame(1).f_globals.get("__name__")]
        return (original if told_the_truth else shown)(*args, **kwargs)

    return wrapper
