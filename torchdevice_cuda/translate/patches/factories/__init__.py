"""Functions that create tensors: only their ``device`` argument is translated."""

from __future__ import annotations

import types
from typing import Any

import torch

from ....drivers.traits import Trait
from ...core.context import Context
from ...core.entering import entering
from ...core.registry import patch
from ...core.requests import names_a_device
from ...core.retry import given_second_try
from ...core.wrapping import PLAIN, Function, dispatch_torch_function, install, modes
from ..random import draws_on_its_generator
from .common import (
    ENTRANCES,
    LIKE,
    OVERRIDABLE,
    Handler,
    Injects,
    constructors,
    drawing_on_cpu,
    given_tensors,
    injection,
)
from .host import on_host
from .partial import on_partial

_CPU = torch.device("cpu")


def on_separate(
    context: Context, name: str, original: Function, injects: Injects | None, of_tensors: Handler | None
) -> Function:
    """Return a factory for an accelerator with separate memory, the default target under ``accelerate``."""
    translator, gpu, apparent_devices = context.translator, context.gpu, context.translator.apparent_devices
    draw = drawing_on_cpu(context, name, original)
    like, overridable, redirects = name in LIKE, name in OVERRIDABLE, translator.default_target is not None

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if modes or overridable or (like and (not args or args[0].__class__ not in PLAIN)):
            subjects = (args[0] if args else kwargs.get("input"),) if like else args if overridable else ()
            if (handled := dispatch_torch_function(wrapper, subjects, args, kwargs)) is not NotImplemented:
                return handled
        if of_tensors is not None and (made := of_tensors(args, kwargs)) is not NotImplemented:
            return made
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
                    kwargs["device"], believe = _CPU, None  # pinned memory is on the host by definition
        made = original(*args, **kwargs)
        return made if believe is None else believe(made)

    return wrapper


def counted(context: Context, name: str, inner: Function) -> Function:
    """Return a factory that counts results for which the program named no device; named devices are counted elsewhere.

    A tensor created like another is on that one's device: there is no request.
    """
    if name in LIKE or name in ENTRANCES:
        return inner
    translator, overridable = context.translator, name in OVERRIDABLE
    # ``with torch.device(...)`` is a function mode: it names the device, and calls again.
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


def _made_for(context: Context, name: str, original: Function) -> Function:
    """Return the wrapper of a factory for the driver's kind of memory."""
    if Trait.CPU_TENSORS in context.traits:
        return on_host(context, name, original)
    make = on_partial if Trait.PARTIAL in context.traits else on_separate
    of_tensors = given_tensors(context, name, make(context, name, original, None, None))
    return make(context, name, original, injection(context.translator, name), of_tensors)


@patch("torch.<factory>", "torch.fft.<factory>", "torch.nested.nested_tensor", traits=Trait.REDIRECTS)
def factories(context: Context) -> None:
    """Every function of torch that creates a tensor on a given device, or on none."""
    for name, (owner, attribute, original) in constructors().items():
        wrapper = _made_for(context, name, original)
        # With tensor arguments it draws like other functions of tensors.
        if name == "normal" and Trait.ACCELERATES in context.traits:
            wrapper = draws_on_its_generator(context, wrapper)
        if Trait.COUNTED in context.traits:
            wrapper = counted(context, name, wrapper)
        install(context, owner, attribute, wrapper, original)


@patch("torch.<factory>", "torch.fft.<factory>", traits=Trait.NATIVE, without=Trait.REDIRECTS)
def foreign_names(context: Context) -> None:
    """Factories understand ``cuda`` and ``cpu`` themselves; ``mps`` and the toggle are translated when they fail."""
    for owner, attribute, original in constructors().values():
        if isinstance(original, types.BuiltinFunctionType):  # others pass the device to one of these
            given_second_try(context, f"{owner.__name__}.{attribute}", original)


@patch("torch.<entrance>", "torch.utils.dlpack.from_dlpack", traits=Trait.ACCELERATES)
def entrances(context: Context) -> None:
    """from_numpy and others return CPU tensors; if requests for no device go to the accelerator, so do these."""
    enter = entering(context)
    for name in ENTRANCES:
        original = getattr(torch, name)

        def wrapper(*args: Any, _original: Function = original, **kwargs: Any) -> torch.Tensor:
            return enter(_original(*args, **kwargs))

        install(context, torch, name, wrapper, original)
    # The older name of torch.from_dlpack.
    context.editor.set(torch.utils.dlpack, "from_dlpack", vars(torch)["from_dlpack"])
