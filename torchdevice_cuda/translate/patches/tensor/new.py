"""``Tensor.new_zeros`` and similar methods that create another tensor."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from ....drivers.traits import Trait
from ...core.context import Context
from ...core.conversions import on_refusal
from ...core.precision import COMPLEX128, refuse_complex128
from ...core.registry import patch
from ...core.requests import names_a_device
from ...core.retry import given_second_try
from ...core.wrapping import PLAIN, Function, hand, install, modes

NEW = ("new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros", "new_tensor")


@patch("torch.Tensor.<new>", traits=Trait.REDIRECTS, without=Trait.PARTIAL)
def new(context: Context) -> None:
    """Tensor.new_zeros and similar methods take a device."""
    for name in NEW:
        original = getattr(torch.Tensor, name)
        install(context, torch.Tensor, name, _wrapper(context, original), original)


@patch("torch.Tensor.<new>", traits=Trait.NATIVE, without=Trait.REDIRECTS)
def foreign_names(context: Context) -> None:
    """They understand ``cuda`` and ``cpu`` themselves; ``mps`` and the toggle are translated when they fail."""
    for name in NEW:
        given_second_try(context, f"torch.Tensor.{name}", vars(torch._C.TensorBase)[name])


def _wrapper(context: Context, original: Function) -> Function:
    translator, marks = context.translator, context.translator.marks
    on_cpu, refs, ref = Trait.CPU_TENSORS in context.traits, marks.refs, weakref.ref

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if (modes or self.__class__ not in PLAIN) and (out := hand(wrapper, self, args, kwargs)) is not NotImplemented:
            return out
        asked = kwargs.get("device")
        if asked is None:
            # A tensor created by one on CUDA is on CUDA.
            made = original(self, *args, **kwargs) if kwargs else original(self, *args)
            mark = refs.get(id(self))
            if mark is not None and mark() is self:
                refs[id(made)] = ref(made)
                if len(refs) > marks.limit:
                    marks.sweep()
            return made
        if not names_a_device(asked):
            return original(self, *args, **kwargs)
        kwargs["device"] = translator.device(asked)
        made = original(self, *args, **kwargs)
        return marks.add(made) if on_cpu and translator.names_accelerator(asked) else made

    return wrapper


@patch("torch.Tensor.<new>", traits=Trait.PARTIAL)
def new_partial(context: Context) -> None:
    """Tensor.new_zeros and similar methods take a device, and may request float64."""
    for name in NEW:
        original = getattr(torch.Tensor, name)
        install(context, torch.Tensor, name, _partial_wrapper(context, name, original), original)


def _partial_wrapper(context: Context, name: str, original: Function) -> Function:
    translator, observe, gpu = context.translator, context.driver.memory.observe, context.gpu
    after_refusal, apparent_devices = on_refusal(context, name), context.translator.apparent_devices
    redirects = translator.default_target is not None

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if (modes or self.__class__ not in PLAIN) and (out := hand(wrapper, self, args, kwargs)) is not NotImplemented:
            return out
        asked = kwargs.get("device") if kwargs else None
        if asked is not None and names_a_device(asked):
            kwargs["device"] = translator.device(asked)
        try:
            made = original(self, *args, **kwargs) if kwargs else original(self, *args)
            if made.dtype is COMPLEX128:
                refuse_complex128(made)
        except (TypeError, RuntimeError) as error:
            return after_refusal(error, self, args, kwargs)
        observe()
        if not redirects:
            return made
        if asked is None:
            return apparent_devices.carry(self, made)
        if kwargs["device"] not in gpu:
            return made
        return (
            apparent_devices.add_cuda(made) if translator.names_accelerator(asked) else apparent_devices.add_cpu(made)
        )

    return wrapper


@patch("torch.Tensor.new", traits=Trait.ACCELERATES)
def new_of_old(context: Context) -> None:
    """``x.new(3)`` has the same apparent device as ``x``."""
    original, carry = torch.Tensor.new, context.translator.apparent_devices.carry

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return carry(self, original(self, *args, **kwargs))

    install(context, torch.Tensor, "new", wrapper, original)
