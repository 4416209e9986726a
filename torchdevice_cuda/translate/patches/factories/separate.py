"""Factories where the accelerator has memory of its own, and every dtype and operator."""

from __future__ import annotations

from typing import Any

from ...core.context import Context
from ...core.requests import names_a_device
from ...core.wrapping import PLAIN, Function, handed_over, modes
from .common import LIKE, OVERRIDABLE, injection


def on_separate(context: Context, name: str, original: Function) -> Function:
    """A factory where the accelerator has memory of its own; under ``accelerate`` it is where tensors go unasked."""
    translator = context.translator
    injects = injection(translator, name)
    like, overridable = name in LIKE, name in OVERRIDABLE

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if modes or overridable or (like and (not args or args[0].__class__ not in PLAIN)):
            subjects = (args[0] if args else kwargs.get("input"),) if like else args if overridable else ()
            if (handled := handed_over(wrapper, subjects, args, kwargs)) is not NotImplemented:
                return handled
        asked = kwargs.get("device")
        if asked is None:
            target = translator.default_target
            if target is not None and injects is not None and injects(args, kwargs):
                kwargs["device"] = target
                translator.log("no device", target)
        elif names_a_device(asked):
            kwargs["device"] = translator.device(asked)
        return original(*args, **kwargs)

    return wrapper
