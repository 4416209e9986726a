"""Factories where the accelerator has memory of its own, and every dtype and operator."""

from __future__ import annotations

from typing import Any

import torch

from ...core.context import Context
from ...core.requests import names_a_device
from ...core.wrapping import PLAIN, Function, dispatch_torch_function, modes
from .common import LIKE, OVERRIDABLE, drawing_on_cpu, injection

_CPU = torch.device("cpu")


def on_separate(context: Context, name: str, original: Function) -> Function:
    """A factory where the accelerator has memory of its own; under ``accelerate`` it is where tensors go unasked."""
    translator, gpu, apparent_devices = context.translator, context.gpu, context.translator.apparent_devices
    injects, draw = injection(translator, name), drawing_on_cpu(context, name, original)
    like, overridable, redirects = name in LIKE, name in OVERRIDABLE, translator.default_target is not None

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if modes or overridable or (like and (not args or args[0].__class__ not in PLAIN)):
            subjects = (args[0] if args else kwargs.get("input"),) if like else args if overridable else ()
            if (handled := dispatch_torch_function(wrapper, subjects, args, kwargs)) is not NotImplemented:
                return handled
        if "generator" in kwargs and (drawn := draw(args, kwargs)) is not NotImplemented:
            return drawn
        asked, believe = kwargs.get("device"), None
        if asked is None:
            target = translator.default_target
            if target is not None and injects is not None and injects(args, kwargs):
                kwargs["device"] = target
                translator.log("no device", target)
                believe = apparent_devices.add_cpu
        elif names_a_device(asked):
            kwargs["device"] = target = translator.device(asked)
            if redirects and target in gpu:
                believe = apparent_devices.add_cuda if translator.names_accelerator(asked) else apparent_devices.add_cpu
                if believe == apparent_devices.add_cpu and kwargs.get("pin_memory"):
                    kwargs["device"], believe = _CPU, None  # pinned memory is the host's by definition
        made = original(*args, **kwargs)
        return made if believe is None else believe(made)

    return wrapper
