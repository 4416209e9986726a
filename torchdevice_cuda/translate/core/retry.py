"""Calls of torch's C functions that are looked at only where they failed: compiled code has the functions tell of it.

Nothing is wrapped, and a call that succeeds costs what it always does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .context import Context
from .editor import dotted
from .requests import TOGGLE

if TYPE_CHECKING:
    from ...native.interface import Handler, Rescue


def rescued(
    context: Context, owner: Any, name: str, function: Any, handling: Callable[[Rescue], tuple[Handler, bool]]
) -> bool:
    """Have calls of ``owner.name`` looked at; whether that can be had: else a wrapper has to do it.

    ``handling`` gives the handler, and whether it is to be asked before each call too.
    """
    rescue = context.driver.rescue
    if rescue is None:
        return False
    handler, first = handling(rescue)
    try:
        rescue(function, handler, first)
    except TypeError:  # written in Python, or without arguments
        return False
    context.editor.undone(dotted(owner, name), lambda: rescue(function, None))
    return True


def _is_foreign(asked: Any) -> bool:
    """Return whether a request is one that torch refuses and the table does not."""
    if isinstance(asked, torch.device):
        return asked.type == "mps"
    return isinstance(asked, str) and (asked == TOGGLE or asked.partition(":")[0] == "mps")


def given_second_try(context: Context, target: str, function: Any, place: int | None = None) -> None:
    """Have a C function, method or type of torch called again where it failed for the device that it was given.

    Where CUDA's tensors are real and the policy leaves requests for the CPU alone, torch understands every request but
    ``mps`` and the toggle ``cpu:-1``.
    ``place`` is where a device stands if it is not given by name; a method's first argument is its tensor.
    """
    native = context.driver.native
    if native is None:  # no device is visible to the program
        return
    device: Callable[[Any], torch.device] = context.translator.device

    def translated(asked: Any) -> Any:
        """Return a value of the given kind: errors about other arguments name it."""
        return str(device(asked)) if isinstance(asked, str) else device(asked)

    def again(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, error: BaseException | None) -> Any:
        if kwargs and _is_foreign(kwargs.get("device")):
            return function(*args, **{**kwargs, "device": translated(kwargs["device"])})
        if place is not None and len(args) > place and _is_foreign(args[place]):
            return function(*args[:place], translated(args[place]), *args[place + 1 :], **(kwargs or {}))
        return NotImplemented

    native.rescue(function, again)
    context.editor.undone(target, lambda: native.rescue(function, None))
