"""TorchScript's compiler."""

from __future__ import annotations

from typing import Any

import torch
from torch.jit import _script

from ...drivers.traits import NONE, Trait
from ..core.context import Context
from ..core.registry import patch
from ..core.requests import names_a_device
from ..core.wrapping import Function, copy_metadata, install, scripted


@patch("torch._C._jit_override_can_fuse_on_gpu", traits=Trait.SUBSTITUTE)
def fusion(context: Context) -> None:
    """A CUDA build generates fused kernels for the GPU, and compiles them with NVIDIA's compiler."""
    before = torch._C._jit_can_fuse_on_gpu()
    torch._C._jit_override_can_fuse_on_gpu(False)
    context.editor.undone(
        "torch._C._jit_override_can_fuse_on_gpu", lambda: torch._C._jit_override_can_fuse_on_gpu(before)
    )


_READING = ("import_ir_module", "import_ir_module_from_buffer")


@patch(*(f"{owner}.{name}" for owner in ("torch._C", "torch") for name in _READING), traits=Trait.TRANSLATED)
def reading(context: Context) -> None:
    """A saved program is read in C++, which gets the device for its tensors."""
    translator = context.translator
    for name in _READING:
        original: Function = getattr(torch._C, name)

        def read(
            unit: Any, source: Any, map_location: Any = None, *rest: Any, _original: Function = original, **named: Any
        ) -> Any:
            if map_location is not None and names_a_device(map_location):
                map_location = translator.device(map_location)
            return _original(unit, source, map_location, *rest, **named)

        install(context, torch._C, name, read, original)
        context.editor.set(torch, name, getattr(torch._C, name))


@patch("torch.jit._script._get_overloads", traits=NONE)
def overloads(context: Context) -> None:
    """A function with several signatures (``torch.norm``) is compiled from the original function, under its name."""
    original: Function = _script._get_overloads

    def _get_overloads(obj: Any) -> Any:
        return original(scripted(obj))

    context.editor.set(_script, "_get_overloads", copy_metadata(_get_overloads, original))
