"""The disguise: objects on the accelerator report ``cuda`` to the program and their real device to torch."""

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
    """Return the device that the program sees for an object whose memory is not tracked."""
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

    ``otherwise`` is the answer for objects that report the CPU.
    """

    def read(self: Any) -> Any:
        if on_gpu(self) and not inside[_frame(1).f_globals.get("__name__")]:
            return otherwise if believed_cpu(self) else answer
        return getter(self)

    return property(read, doc=getattr(getter, "__doc__", None))


def as_program(function: Any) -> types.FunctionType:
    """Return a copy of a torch function that sees what the program sees.

    Callers are recognized by the module name in their globals, so the copy has globals with another name. They are a
    snapshot, since a function's globals must be a plain dictionary: names that its module binds later are missing.
    """
    names = {**function.__globals__, "__name__": "__program__"}
    copy = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    functools.update_wrapper(copy, function, updated=("__dict__",))
    return copy


def by_caller(original: types.FunctionType) -> Callable[..., Any]:
    """Return a torch function that reports apparent devices to the program and real ones to torch."""
    shown = as_program(original)

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        told_the_truth = inside[_frame(1).f_globals.get("__name__")]
        return (original if told_the_truth else shown)(*args, **kwargs)

    return wrapper
