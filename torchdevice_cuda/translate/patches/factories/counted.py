"""Factories where a report is asked for: it counts requests for no device too, which fast paths do not look at."""

from __future__ import annotations

from typing import Any

import torch

from ...core.context import Context
from ...core.wrapping import Function, dispatch_torch_function, modes
from .common import ENTRANCES, LIKE, OVERRIDABLE


def counted(context: Context, name: str, inner: Function) -> Function:
    """A factory that counts what it made where the program named no device; named devices count themselves.

    What is made like another tensor is made where that one is: nothing is asked for.
    """
    if name in LIKE or name in ENTRANCES:
        return inner
    translator, overridable = context.translator, name in OVERRIDABLE
    # With torch.device(...) is one: it names the device, and calls again.
    function_modes = torch._C._is_torch_function_mode_enabled

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if modes or overridable:
            subjects = args if overridable else ()
            if (handled := dispatch_torch_function(wrapper, subjects, args, kwargs)) is not NotImplemented:
                return handled
        unnamed = kwargs.get("device") is None and kwargs.get("out") is None and not function_modes()
        made = inner(*args, **kwargs)
        if unnamed:
            translator.count_unnamed(made)
        return made

    return wrapper
