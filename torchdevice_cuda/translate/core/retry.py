"""Calls of torch's C functions that are examined only if they fail: compiled code calls a handler then.

Nothing is wrapped, so a call that succeeds costs nothing extra.
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
    """Install a handler of ``owner.name``; return whether that is possible: otherwise it has to be wrapped.

    ``handling`` returns the handler, and whether it is also called before each call.
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
    """Return whether torch refuses a request that the policy accepts."""
    if isinstance(asked, torch.device):
        return asked.type == "mps"
    return isinstance(asked, str) and (asked == TOGGLE or asked.partition(":")[0] == "mps")


def given_second_try(context: Context, target: str, function: Any, place: int | None = None) -> None:
    """Call a C function, method or type of torch again if it failed because of its device.

    Where CUDA tensors are real and the policy does not redirect requests for the CPU, torch understands every request
    but ``mps`` and the toggle ``cpu:-1``.
    ``place`` is the device's position if it is not passed by name; a method's first argument is its tensor.
    """
    native = context.driver.native
    if native is None:  # no device is visible to the program
        return
    device: Callable[[Any], torch.device] = context.translator.device

    def translated(asked: Any) -> Any:
        """Return a value of the same type, because errors about other arguments name the types."""
        return str(device(asked)) if isinstance(asked, str) else device(asked)

    def again(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, error: BaseException | None) -> Any:
        if kwargs and _is_foreign(kwargs.get("device")):
            return function(*args, **{**kwargs, "device": translated(kwargs["device"])})
        if place is not None and len(args) > place and _is_foreign(args[place]):
            return function(*args[:place], translated(args[place]), *args[place + 1 :], **(kwargs or {}))
        return NotImplemented

    native.rescue(function, again)
    context.editor.undone(target, lambda: native.rescue(function, None))
