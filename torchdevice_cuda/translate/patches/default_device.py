"""``with torch.device(...)``, ``torch.set_default_device`` and ``torch.get_default_device``."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._device import DeviceContext, _device_constructors

from ...drivers.traits import NONE, Trait
from ..core.context import Context
from ..core.disguise import disguised
from ..core.registry import patch
from ..core.requests import TOGGLE
from ..core.wrapping import Function, copy_metadata, install


@patch("torch.utils._device.DeviceContext.__torch_function__", traits=Trait.REDIRECTS)
def device_contexts(context: Context) -> None:
    """``with torch.device("cuda")`` adds the device and calls the original function: it must call the wrapper."""
    original = DeviceContext.__torch_function__
    wrapped = context.wrapped

    def __torch_function__(self: Any, func: Function, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _device_constructors() and kwargs.get("device") is None:
            kwargs["device"] = self.device
            entry = wrapped.get(id(func))
            func = entry[1] if entry is not None else func
        return func(*args, **kwargs)

    context.editor.set(DeviceContext, "__torch_function__", copy_metadata(__torch_function__, original))


@patch("torch.set_default_device", traits=NONE)
def toggle(context: Context) -> None:
    """``torch.set_default_device("cpu:-1")``: torch does not accept the toggle as a device."""
    original, translated = torch.set_default_device, context.translator.device

    def set_default_device(device: Any) -> None:
        original(translated(device) if device.__class__ is str and device == TOGGLE else device)

    install(context, torch, "set_default_device", set_default_device, original)


@patch("torch.get_default_device", traits=Trait.DISGUISED)
def default_device(context: Context) -> None:
    """torch.get_default_device creates a tensor to get the device's index, and reads its real device."""
    original = torch.get_default_device

    def get_default_device() -> torch.device:
        return disguised(context, original())

    install(context, torch, "get_default_device", get_default_device, original)
