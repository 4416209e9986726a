"""``torch.nested``: functions that take a device but are not factories; ``nested_tensor`` is a factory."""

from __future__ import annotations

from typing import Any

import torch
import torch.nested

from ...drivers.traits import Trait
from ..core.context import Context
from ..core.registry import patch
from ..core.requests import names_a_device
from ..core.wrapping import install


@patch("torch.nested.as_nested_tensor", traits=Trait.REDIRECTS)
def as_nested_tensor(context: Context) -> None:
    """as_nested_tensor passes its device to C++ unchanged, so its arguments are moved before the call."""
    original = torch.nested.as_nested_tensor
    translator, on_host = context.translator, Trait.HOST_MEMORY in context.traits

    def moved(ts: Any, device: Any) -> Any:
        if isinstance(ts, torch.Tensor):
            return ts.to(device)
        parts = isinstance(ts, (list, tuple)) and all(isinstance(part, torch.Tensor) for part in ts)
        return [part.to(device) for part in ts] if parts else ts

    def wrapper(ts: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> torch.Tensor:
        if device is None or not names_a_device(device):
            return original(ts, dtype, device, layout)
        target = translator.device(device)
        made = original(moved(ts, device), dtype, target, layout)
        return translator.marks.add(made) if on_host and translator.names_accelerator(device) else made

    install(context, torch.nested, "as_nested_tensor", wrapper, original)
