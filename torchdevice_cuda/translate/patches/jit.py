"""TorchScript's compiler."""

from __future__ import annotations

from typing import Any

import torch
from torch.jit import _script

from ...drivers.traits import NONE, Trait
from ..core.context import Context
from ..core.registry import patch
from ..core.wrapping import Function, resembling, scripted


@patch("torch._C._jit_override_can_fuse_on_gpu", traits=Trait.SUBSTITUTE)
def fusion(context: Context) -> None:
    """A CUDA build writes kernels for what it can fuse on a GPU, and has NVIDIA's compiler compile them."""
    before = torch._C._jit_can_fuse_on_gpu()
    torch._C._jit_override_can_fuse_on_gpu(False)
    context.editor.undone(
        "torch._C._jit_override_can_fuse_on_gpu", lambda: torch._C._jit_override_can_fuse_on_gpu(before)
    )


@patch("torch.jit._script._get_overloads", traits=NONE)
def overloads(context: Context) -> None:
    """A function with several signatures (``torch.norm``) is compiled from here: the original, and with its names."""
    original: Function = _script._get_overloads

    def _get_overloads(obj: Any) -> Any:
        return original(scripted(obj))

    context.editor.set(_script, "_get_overloads", resembling(_get_overloads, original))
