"""``torch.nn.Module``: the arguments of ``to``, ``to_empty``, and modules that check a tensor's device."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import torch

from ..._compat import present
from ...drivers.traits import Trait
from ..core.callers import inside
from ..core.context import Context
from ..core.disguise import as_program, disguised
from ..core.registry import patch
from ..core.requests import TOGGLE, cpu_is_meant
from ..core.retry import given_second_try
from ..core.wrapping import install

_frame = sys._getframe


@patch("torch._C._nn._parse_to", traits=Trait.REDIRECTS)
def parse_to(context: Context) -> None:
    """``Module.to`` and Lightning parse the arguments of ``to`` in C, which knows only compiled-in accelerators.

    An integer means the accelerator, and the toggle is not a device: both are replaced before C++ gets them. The device
    is returned as the program named it: the tensors' own ``to`` translates it, and modules that store it
    (``LightningModule.device``) report ``cuda``. Libraries that call this function store and show the device that they
    get, so a disguised device stays disguised.
    """
    original = torch._C._nn._parse_to
    translator, is_disguised = context.translator, Trait.DISGUISED in context.traits

    def named(asked: Any) -> Any:
        if asked.__class__ is int:
            return torch.device("cuda", asked)
        return translator.device(asked) if asked.__class__ is str and asked == TOGGLE else asked

    def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        if args:
            args = (named(args[0]), *args[1:])
        if "device" in kwargs:
            kwargs["device"] = named(kwargs["device"])
        device, *rest = original(*args, **kwargs)
        if is_disguised and device is not None and not inside[_frame(1).f_globals.get("__name__")]:
            device = disguised(context, device)
        return (device, *rest)

    context.editor.set(torch._C._nn, "_parse_to", _parse_to)


@patch("torch._C._nn._parse_to", traits=Trait.NATIVE, without=Trait.REDIRECTS)
def foreign_names(context: Context) -> None:
    """``Module.to("cpu:-1")``: the toggle is translated when the call fails; tensors translate other devices."""
    given_second_try(context, "torch._C._nn._parse_to", torch._C._nn._parse_to, place=0)


@patch("torch.nn.modules.module.Module.to", traits=Trait.ACCELERATES)
def toggle(context: Context) -> None:
    """``Module.to("cpu:-1")`` returns the CPU even if it turns the override off; its tensors only get the CPU."""
    original, translator = torch.nn.Module.to, context.translator

    def to(self: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.nn.Module:
        asked = args[0] if args else kwargs.get("device")
        if not isinstance(asked, str) or asked != TOGGLE:
            return original(self, *args, **kwargs)
        kwargs["device"] = translator.device(asked)
        before = cpu_is_meant.set(True)
        try:
            return original(self, *args[1:], **kwargs)
        finally:
            cpu_is_meant.reset(before)

    install(context, torch.nn.Module, "to", to, original)


@patch("torch.nn.modules.module.Module.to_empty", traits=Trait.TRANSLATED)
def empty(context: Context) -> None:
    """``Module.to_empty(device="cuda")`` passes the device to ``torch.empty_like``, and accepts integers."""
    original = torch.nn.Module.to_empty
    translator = context.translator

    def to_empty(self: torch.nn.Module, *, device: Any, recurse: bool = True) -> torch.nn.Module:
        return original(self, device=None if device is None else translator.device(device), recurse=recurse)

    install(context, torch.nn.Module, "to_empty", to_empty, original)


@patch(
    "torch.nn.SyncBatchNorm.forward",
    "torch.nn.ParameterDict.extra_repr",
    "torch.nn.ParameterList.extra_repr",
    traits=Trait.DISGUISED,
)
def asking(context: Context) -> None:
    """SyncBatchNorm requires a GPU tensor, by its device's type; containers print the GPU of a parameter."""
    for owner, name in (
        (torch.nn.SyncBatchNorm, "forward"),
        (torch.nn.ParameterDict, "extra_repr"),
        (torch.nn.ParameterList, "extra_repr"),
    ):
        context.editor.set(owner, name, as_program(getattr(owner, name)), f"torch.nn.{owner.__name__}.{name}")


_FLEX = "torch.nn.attention.flex_attention"


@patch(f"{_FLEX}._validate_device", traits=Trait.DISGUISED)
def flexible_attention(context: Context) -> None:
    """flex_attention accepts CUDA and CPU tensors, by their device's type; before 2.12 no MPS tensors."""

    def change(module: ModuleType) -> None:
        for name in present(module, ("_validate_device",)):
            context.editor.set(module, name, as_program(getattr(module, name)), f"{_FLEX}.{name}")

    context.editor.on_undo(context.when_imported(_FLEX, context.editor.later(change)))
