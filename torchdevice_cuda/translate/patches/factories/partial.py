"""Factories if the accelerator lacks dtypes: they handle float64 and the device's errors, and observe memory peaks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from ....fallback.cpu import place_quantized, seeded, to_cpu
from ....fallback.refusals import NARROW, NO_NESTED, NO_QUANTIZED, refusal
from ....wrapper_tensors import nested
from ...core.context import Context
from ...core.conversions import leaf
from ...core.precision import COMPLEX128, refuse_complex128
from ...core.requests import names_a_device
from ...core.wrapping import PLAIN, Function, dispatch_torch_function, modes
from .common import (
    LIKE,
    OF_NO_VALUES,
    OVERRIDABLE,
    Arguments,
    Handler,
    Injects,
    Keywords,
    drawing_on_cpu,
    takes_generator,
)

_CPU = torch.device("cpu")
Believe = Callable[[torch.Tensor], torch.Tensor]


def on_partial(
    context: Context, name: str, original: Function, injects: Injects | None, of_tensors: Handler | None
) -> Function:
    """Return a factory that translates its device, handles float64 and errors of the GPU, and records peaks."""
    translator, driver, known = context.translator, context.driver, context.translator.on_gpu
    like, overridable = name in LIKE, name in OVERRIDABLE
    on_refusal, slow_path = _on_refusal(context, name, original), _slow_path(context, name, original, injects)
    observe = driver.memory.observe
    # Without values the result is complex128 only if that is requested; with values, also by their type.
    of_values = like or name not in OF_NO_VALUES
    redirects, apparent_devices, carry = (
        translator.default_target is not None,
        translator.apparent_devices,
        translator.apparent_devices.carry,
    )
    injecting, overridden = injects is not None, torch._C._has_torch_function
    caller = sys._getframe

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if modes or (like and (not args or args[0].__class__ not in PLAIN)) or (overridable and overridden(args)):
            subjects = (args[0] if args else kwargs.get("input"),) if like else args if overridable else ()
            if (handled := dispatch_torch_function(wrapper, subjects, args, kwargs)) is not NotImplemented:
                return handled
        if of_tensors is not None and (made := of_tensors(args, kwargs)) is not NotImplemented:
            return made
        # The most common calls: for CUDA, which has been used before, or for no device, by the program itself.
        if driver.needs_init or "pin_memory" in kwargs or "generator" in kwargs or "out" in kwargs:
            return slow_path(args, kwargs)
        asked = kwargs.get("device")
        if asked is not None:
            try:
                target = known.get(asked)
            except TypeError:  # unhashable: torch raises its own error
                target = None
            if target is None:
                return slow_path(args, kwargs)
            kwargs["device"] = target
        elif not like:
            if not injecting and not kwargs:
                return original(*args)
            if overridable or not injecting or not translator.injects_for(caller(1)):
                return slow_path(args, kwargs)
            kwargs["device"] = translator.default_target
        try:
            made = original(*args, **kwargs) if kwargs else original(*args)
            if (made.dtype if of_values else kwargs.get("dtype")) is COMPLEX128:
                refuse_complex128(made)
        except (TypeError, RuntimeError) as error:
            return on_refusal(error, args, kwargs)
        observe()
        if not redirects:
            return made
        if asked is not None:
            return apparent_devices.add_cuda(made)
        return carry(args[0] if args else kwargs["input"], made) if like else apparent_devices.add_cpu(made)

    return wrapper


def _slow_path(context: Context, name: str, original: Function, injects: Injects | None) -> Handler:
    """Return the path of other calls: for no device, for another, pinned, with a generator, the first for CUDA."""
    translator, driver = context.translator, context.driver
    draw = drawing_on_cpu(context, name, original)
    redirects, gpu, apparent_devices = translator.default_target is not None, context.gpu, translator.apparent_devices
    on_refusal, pinned, observe = _on_refusal(context, name, original), context.pinned, driver.memory.observe

    def finish(args: Arguments, kwargs: Keywords) -> Any:
        if "generator" in kwargs and (drawn := draw(args, kwargs)) is not NotImplemented:
            return drawn
        asked = kwargs.get("device")
        target: torch.device | None = None
        believe: Believe | None = None
        if asked is None:
            unnamed = translator.default_target
            if unnamed is not None and injects is not None and injects(args, kwargs):
                kwargs["device"] = target = unnamed
                translator.log("no device", unnamed)
                believe = apparent_devices.add_cpu
        elif names_a_device(asked):
            kwargs["device"] = target = translator.device(asked)
            if redirects and target in gpu:
                believe = apparent_devices.add_cuda if translator.names_accelerator(asked) else apparent_devices.add_cpu
        if kwargs.get("pin_memory") and target in gpu and not translator.names_accelerator(asked):
            kwargs["device"] = target = _CPU  # pinned memory is on the host by definition
        if target not in gpu:
            if kwargs.pop("pin_memory", False):
                return pinned.adopt(original(*args, **kwargs))
        elif driver.needs_init:
            torch.cuda._lazy_init()
        try:
            made = original(*args, **kwargs)
            if made.dtype is COMPLEX128:
                refuse_complex128(made)
        except (TypeError, RuntimeError) as error:
            return on_refusal(error, args, kwargs)
        observe()
        return made if believe is None else believe(made)

    return finish


def _on_refusal(context: Context, name: str, original: Function) -> Callable[[Exception, Arguments, Keywords], Any]:
    """Return the handler of a factory's error: it uses another dtype or the CPU, or raises another error."""
    precision, translated = context.precision, context.errors.translated
    random = takes_generator(name)

    def resolve(error: Exception, args: Arguments, kwargs: Keywords) -> Any:
        if refusal(error) == NO_QUANTIZED:
            device = precision.accelerator
            given = {name: to_cpu(value, device) for name, value in {**kwargs, "device": device}.items()}
            return place_quantized(original(*to_cpu(args, device), **given), device, error)
        if refusal(error) == NO_NESTED:
            device, wants = precision.accelerator, kwargs.get("requires_grad", False)
            made = original(*to_cpu(args, device), **{**kwargs, "device": _CPU, "requires_grad": False})
            return nested.moved(made, device, error).requires_grad_(wants)
        if not precision.is_refusal(error):
            raise translated(error) from None
        dtype = kwargs.get("dtype") or (torch.get_default_dtype() if random else None)
        if precision.choice == "downcast" and dtype in NARROW:
            precision.count(dtype)
            return original(*args, **{**kwargs, "dtype": NARROW[dtype]})
        if random:
            kwargs = {**kwargs, "generator": seeded(kwargs.get("generator"), precision.accelerator)}
        return leaf(precision.admit, original, args, {**kwargs, "device": _CPU})

    return resolve
